"""The notebook's functions with their loops cut: as they were, but for that."""

from __future__ import annotations

import linecache
import textwrap
from collections.abc import Iterable
from typing import Any

import pytest

from jupyter_gpufit.estimate.tracing.loops import CUT, cut_functions


def in_a_cell(text: str, monkeypatch: pytest.MonkeyPatch, name: str = "<a cell>") -> dict[str, Any]:
    """Its variables, and a cut that leaves a loop after two turns."""
    text = textwrap.dedent(text)
    monkeypatch.setitem(linecache.cache, name, (len(text), None, text.splitlines(keepends=True), name))
    namespace: dict[str, Any] = {CUT: lambda items: list(items)[:2]}
    exec(compile(text, name, "exec"), namespace)
    return namespace


def test_private_names_are_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = in_a_cell(
        """
        class Base:
            def all(self):
                return [[one] for one in (1, 2, 3)]
        class _Trainer(Base):
            def __init__(self):
                self.__items = [1, 2, 3]
            def all(self):
                def __within():
                    return [one for one in self.__items] + [one for one in super(_Trainer, self).all()]
                return __within() + [len(super().all())]
        def plain(object):
            return [one for one in object.__items]
        def made():
            class Closed:
                def all(self):
                    return [(one, Closed) for one in (1, 2, 3)]
            return Closed
        Closed = made()
        """,
        monkeypatch,
    )

    assert cut_functions(namespace) == []
    trainer = namespace["_Trainer"]()
    assert trainer.all() == [1, 2, [1], [2], 2]
    trainer.__dict__["__items"] = [1, 2, 3]
    assert namespace["plain"](trainer) == [1, 2]
    assert namespace["Closed"]().all() == [(one, namespace["Closed"]) for one in (1, 2)]


@pytest.mark.parametrize("other", ["\n", "\n\ndef train(items, other):\n    return [one for one in items]\n"])
def test_another_text_under_its_files_name_is_not_taken_for_its_own(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace = in_a_cell("def train(items):\n    return [one for one in items]\n", monkeypatch, "<string>")
    monkeypatch.setitem(linecache.cache, "<string>", (len(other), None, other.splitlines(keepends=True), "<string>"))
    items: Iterable[int] = [1, 2, 3]

    assert cut_functions(namespace) == ["train"]
    assert namespace["train"](items) == [1, 2, 3]
