"""Replacing a function under each of its names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpufit.system.names import holders_of, replace_everywhere


def test_modules_and_classes_keep_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ModuleType("there")
    text = (
        "from os import getpgid as compiled\nfrom os.path import commonpath as written\n"
        "class Kept:\n    plain = compiled\n    static = staticmethod(compiled)\n    method = written\n"
    )
    exec(text, vars(there))
    monkeypatch.setitem(sys.modules, "there", there)
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (os.getpgid, lambda *args: ("compiled", *args[-1:])),
        (os.path.commonpath, lambda *args: len(args)),
    ]

    replace_everywhere(pairs)
    try:
        kept = there.Kept()
        assert there.compiled(1) == kept.plain(1) == kept.static(1) == there.Kept.static(1) == ("compiled", 1)
        assert (there.written([]), kept.method()) == (1, 1)
    finally:
        replace_everywhere([(new, real) for real, new in pairs])
    assert os.getpgid(0) == there.Kept().static(0) == os.getpgrp()


def test_who_has_looked_before_looks_again_only_where_something_has_come_or_grown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, later = ModuleType("there"), ModuleType("later")
    exec("from os import getpgid as first\nclass Kept:\n    static = staticmethod(first)\n", vars(there))
    exec("from os import getpgid as second\n", vars(later))
    monkeypatch.setitem(sys.modules, "there", there)
    known = holders_of([os.getpgid])
    assert {("there", "first"), ("Kept", "static")} <= {(one.__name__, name) for one, name in known.found}
    monkeypatch.setitem(sys.modules, "later", later)
    exec("from os import getpgid as third", vars(there))
    real, new = os.getpgid, lambda pid: "new"

    replace_everywhere([(real, new)], known)
    try:
        assert [there.first(0), there.third(0), there.Kept.static(0), later.second(0), os.getpgid(0)] == ["new"] * 5
    finally:
        replace_everywhere([(new, real)])
    assert os.getpgid(0) == there.first(0) == later.second(0) == os.getpgrp()
