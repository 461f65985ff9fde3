"""What the user's own modules hold goes with a training, and what leads to it leads there again."""

from __future__ import annotations

import importlib
import pickle
import sys
import threading
import types
import weakref
from pathlib import Path

import pytest

from jupyter_gpufit.graph.put_back import put_back, written
from jupyter_gpufit.snapshot.modules import held_by, lost, own_modules, put_data
from jupyter_gpufit.snapshot.trials import trials
from jupyter_gpufit.system.collecting import without_collecting

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

    held = pickle.dumps(held_by(zip(names, [one, other], strict=True), lambda value: True))
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    one, other = (importlib.import_module(name) for name in names)
    put_data(pickle.loads(held))
    one.add("after")
    other.add("elsewhere")

    assert one._store.names == ["before", "after", "elsewhere"]
    assert one.randint is __import__("random").randint


def test_a_module_that_took_over_anothers_name_goes_on_with_what_both_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """deepxde.optimizers copies all of its backend's names into itself, `__name__` among them."""
    package = tmp_path / "renamed_of_mine"
    package.mkdir()
    lines = ("from .config import OPTIONS", "from . import backend", "vars().update(vars(backend))")
    (package / "__init__.py").write_text("\n".join(lines))
    (package / "config.py").write_text("OPTIONS = {'most': 15}\n")
    (package / "backend.py").write_text("")
    names = ("renamed_of_mine.config", "renamed_of_mine.backend", "renamed_of_mine")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("renamed_of_mine").OPTIONS["most"] = 6

    mine = [(name, module) for name, module in own_modules() if name in names]
    held = pickle.dumps(held_by(mine, lambda value: True))
    for name in names:
        monkeypatch.delitem(sys.modules, name)
    whole, config = (importlib.import_module(name) for name in (names[2], names[0]))
    put_data(pickle.loads(held))

    assert whole.OPTIONS is config.OPTIONS
    assert whole.OPTIONS["most"] == 6


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


def test_a_trial_keeps_nothing_of_what_it_tried() -> None:
    """There are thousands in a save, in which nothing is collected: they came to a gigabyte."""

    class Held:
        pass

    held = Held()
    gone = weakref.ref(held)
    with without_collecting():
        with trials(None, {}) as can_be_saved:
            assert can_be_saved([held])
        del held
        assert gone() is None


def test_what_values_share_is_tried_once() -> None:
    """Each of a library's thousands that led to its registry had all of that looked through again."""
    looked: list[int] = []

    class Counted:
        def __init__(self, number: int) -> None:
            self.number = number

        def __reduce__(self) -> tuple[type, tuple[int]]:
            looked.append(self.number)
            return Counted, (self.number,)

    registry = [Counted(number) for number in range(10)]
    opened = threading.Lock()
    with opened, trials(None, {}) as can_be_saved:
        found = [can_be_saved(value) for value in (registry, [registry, 1], [registry, opened], [registry, 2], opened)]

    assert found == [True, True, False, True, False]
    assert looked == list(range(10))


def test_what_led_to_what_cannot_be_saved_is_not_taken_for_saved() -> None:
    opened = threading.Lock()
    inner = [1, opened]
    with opened, trials(None, {}) as can_be_saved:
        assert not can_be_saved([inner])
        assert not can_be_saved([inner, 2])
