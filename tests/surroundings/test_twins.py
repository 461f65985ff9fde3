"""Settings that only calls reach: told by the texts of cells, read by the twins of those calls."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpufit.surroundings import twins


class Library(ModuleType):
    """What a library of compiled code shows of a setting."""

    def __init__(self) -> None:
        super().__init__("a_library")
        self.kept: dict[str, Any] = {
            "Threads": 1,
            "_pair": (1, 2),
            "_form": {"a": 1},
            "_quiet": False,
            "_odd": [object()],
        }
        for name in ("Threads", "_pair", "_form", "_odd"):
            setattr(self, f"get{name}", lambda name=name: self.kept[name])
        self.setThreads = lambda value: self.kept.update(Threads=value)
        self.set_pair = lambda *value: self.kept.update(_pair=value)
        self.set_form = lambda **value: self.kept.update(_form=value)
        self.set_odd = print
        self.is_quiet_enabled = lambda: self.kept["_quiet"]
        self.set_quiet = lambda on: self.kept.update(_quiet=on)
        self.is_fast_enabled = lambda: self.kept.get("fast", True)
        self.enable_fast = lambda: self.kept.update(fast=True)
        self.disable_fast = lambda: self.kept.update(fast=False)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    made = Library()
    monkeypatch.setitem(sys.modules, "a_library", made)
    yield made


@pytest.mark.parametrize(
    ("text", "value", "then"),
    [
        ("lib.setThreads(3)", ("Threads", 3), 3),
        ("lib.set_pair(3, 4)", ("_pair", (3, 4)), (3, 4)),
        ("lib.set_form(a=4)", ("_form", {"a": 4}), {"a": 4}),
        ("lib.set_quiet(True)", ("_quiet", True), True),
        ("lib.disable_fast()", ("fast", False), False),
    ],
)
def test_what_a_call_has_set_is_set_elsewhere(library: Library, text: str, value: Any, then: Any) -> None:
    name, set_to = value
    before = library.kept.get(name, True)
    library.kept[name] = set_to
    found = list(twins.read([text], {"lib": library}))
    library.kept[name] = before

    assert not list(twins.put(found, load=False))

    assert library.kept[name] == then
    assert twins.changed(found) == []
    library.kept[name] = before
    assert [one[2] for one in twins.changed(found)] == [before]


@pytest.mark.parametrize(
    "text", ["lib.set_odd(1)", "lib.set_nothing(1)", "other.setThreads(1)", "lib.kept", "lib.set_("]
)
def test_what_no_text_means_or_no_plain_value_shows_stays(library: Library, text: str) -> None:
    assert list(twins.read([text], {"lib": library, "other": object()})) == []


def test_what_python_itself_holds_and_what_is_each_processs_own() -> None:
    text = "gc.disable(); setdefaulttimeout(3); os.setpgid(0, 0); multiprocessing.set_start_method('spawn')"
    import multiprocessing
    import os

    here = {"gc": gc, "setdefaulttimeout": socket.setdefaulttimeout, "os": os, "multiprocessing": multiprocessing}

    assert list(twins.read([text], here)) == [("gc", "disable", gc.isenabled()), ("_socket", "setdefaulttimeout", None)]


def test_a_call_that_fails_is_told(library: Library) -> None:
    library.setThreads = lambda value: library.kept.update(Threads=1 / 0)
    assert list(twins.put([("a_library", "setThreads", 3), ("not_here", "set_x", 1)], load=False)) == [
        "a_library.setThreads does not take 3 in this process (ZeroDivisionError: division by zero)."
    ]
