"""What the user's own modules hold goes with a training, and what leads to it leads there again."""

from __future__ import annotations

import importlib
import pickle
import sys
import types
from pathlib import Path

import pytest

from jupyter_gpufit.graph.put_back import put_back, written
from jupyter_gpufit.snapshot.modules import held_by, lost, put_data

REGISTRY = """
from random import randint

class Store:
    def __init__(self):
        self.names = []

    def add(self, name):
        self.names.append(name)

_store = Store()
add = _store.add
"""


def test_a_method_of_what_a_module_holds_is_one_of_the_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "registry_of_mine.py").write_text(REGISTRY)
    (tmp_path / "user_of_it.py").write_text("from registry_of_mine import add")
    names = ("registry_of_mine", "user_of_it")
    monkeypatch.syspath_prepend(tmp_path)
    one, other = (importlib.import_module(name) for name in names)
    one.add("before")

    held = pickle.dumps(held_by([one, other], lambda value: True))
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    one, other = (importlib.import_module(name) for name in names)
    put_data(pickle.loads(held))
    one.add("after")
    other.add("elsewhere")

    assert one._store.names == ["before", "after", "elsewhere"]
    assert one.randint is __import__("random").randint


def test_what_a_cell_put_back_into_a_module_is_there_before_a_checkpoint_is_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package of old that the checkpoint leads to needs it when it is imported."""
    newer = types.ModuleType("newer")
    monkeypatch.setitem(sys.modules, "newer", newer)
    newer.old, newer.kept, newer.own = float, [1], lambda: 0  # type: ignore[attr-defined]

    ahead = written(lost([(newer, (name,), vars(newer)[name]) for name in ("old", "kept", "own")]))
    del newer.old, newer.own
    newer.kept = [2]  # type: ignore[attr-defined]
    put_back(ahead)

    assert newer.old is float and newer.kept == [2] and not hasattr(newer, "own")
