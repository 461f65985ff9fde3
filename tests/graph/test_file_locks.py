"""Locks of files that an earlier cell, or the cell itself, made: metrics and data sets keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.errors import CannotTravel

from .crossing import cross_here, notebook

pytest.importorskip("filelock")  # torch brings it
BEFORE = """
from filelock import FileLock
metric = {"lock": FileLock("mine.lock", timeout=3)}
kept = metric["lock"]
"""


def test_those_that_nobody_holds_travel_both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = notebook(BEFORE)

    cell = "with kept: metric['more'] = [FileLock('other.lock')]\nseen = kept.timeout, kept is metric['lock']\n"
    returned = cross_here(namespace, cell).returned

    assert not returned.left_behind and namespace["seen"] == (3, True)
    assert namespace["metric"]["lock"] is namespace["kept"]
    with namespace["metric"]["more"][0], namespace["kept"]:
        assert namespace["kept"].is_locked and (tmp_path / "other.lock").exists()


def test_one_that_is_held_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = notebook(BEFORE)

    with namespace["kept"], pytest.raises(CannotTravel, match=r"a lock that is held, of the file .*mine.lock"):
        cross_here(namespace, "kept.release()")
