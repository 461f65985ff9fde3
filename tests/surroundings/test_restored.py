"""What a checkpoint brings of a module is set where it stands, unless the training has the very object."""

from __future__ import annotations

import sys
import threading
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from jupyter_gpufit.program import Program
from jupyter_gpufit.snapshot.trials import trials
from jupyter_gpufit.surroundings import magics
from jupyter_gpufit.surroundings import saved as page
from jupyter_gpufit.surroundings.imports import Watch
from jupyter_gpufit.surroundings.saved import restored, saved
from jupyter_gpufit.surroundings.travel import Came


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that shows its dict to others when it is imported."""
    module: Any = ModuleType("a_registry")
    module._known = {"one": 1}
    module.known = MappingProxyType(module._known)
    monkeypatch.setitem(sys.modules, "a_registry", module)
    return module


def _restore(found: dict[str, int]) -> None:
    entry: tuple[Any, ...] = (("a_registry", ((".", "_known"),)), found, ("names", ({"two": 2}, [])))
    restored({"changed": [entry], "causes": {}, "argv": list(sys.argv), "process": {}, "packages": []})


def anything(value: Any, until: float | None = None) -> bool:
    return True


def test_what_only_the_module_has_stays_the_object_that_others_saw(registry: Any) -> None:
    _restore({"one": 1, "two": 2})

    registry._known["three"] = 3
    assert dict(registry.known) == {"one": 1, "two": 2, "three": 3}


def test_what_the_training_has_becomes_the_modules(registry: Any) -> None:
    mine = {"one": 1, "two": 2}
    trained = [mine]
    _restore(mine)

    assert registry._known is trained[0]


class Config(dict[str, Any]):
    """As yacs has it: names are keys, and what it keeps for itself is in its `__dict__`."""

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


@pytest.mark.parametrize("step", ["__dict__", "renamed"])
def test_what_a_container_keeps_beside_its_keys_becomes_no_key(registry: Any, step: str) -> None:
    registry.config = config = Config(lr=0.1)
    vars(config)["renamed"] = {}
    mine = {"lr": "rate"} if step == "renamed" else {"renamed": {"lr": "rate"}}
    trained = [mine]
    place = "a_registry", ((".", "config"), (".", step))
    restored({"changed": [(place, mine, None)], "causes": {}, "argv": list(sys.argv), "process": {}, "packages": []})

    assert registry.config is config and config == {"lr": 0.1} and vars(config) == {"renamed": {"lr": "rate"}}
    assert (vars(config) if step == "__dict__" else vars(config)["renamed"]) is trained[0]


def test_what_a_module_keeps_for_the_main_thread_goes_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """keras counts the names of layers there, and no checkpoint can hold a threading.local itself."""
    (tmp_path / "layer_names.py").write_text("import threading\nstate = threading.local()\nstate.made = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(page, "watch", watch := Watch())
    watch.begin()
    names: Any = import_module("layer_names")
    watch.end()
    names.state.made, names.state.lock = 3, threading.local()

    came = Came({}, {}, frozenset({"layer_names"}))
    taken = saved(came, lambda value, until=None: type(value) is not threading.local, pytest.fail)
    names.state.made = 1
    restored(taken)

    assert names.state.made == 3


def test_a_package_that_takes_too_long_is_said_once_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As numba, whose registries lead to all that it has compiled."""
    (tmp_path / "keeps_much.py").write_text("class Kept: ...\nfirst = second = None\n")
    (tmp_path / "keeps_less.py").write_text("from keeps_much import Kept\nfirst = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(page, "watch", watch := Watch())
    monkeypatch.setattr(page, "_TOO_LARGE", set())
    watch.begin()
    much: Any = import_module("keeps_much")
    less: Any = import_module("keeps_less")
    watch.end()
    much.first, much.second, less.first = 1, much.Kept(), much.Kept()
    came, said = Came({}, {}, frozenset({"keeps_much", "keeps_less"})), list[str]()

    with trials(Program({}), {}) as can_be_saved:
        whole = saved(came, can_be_saved, said.append)["changed"]
        assert sorted(place[0] for place, _ in whole) == ["keeps_less", "keeps_much"] and not said
    with trials(Program({}), {}) as can_be_saved:

        def patient(value: Any, until: float | None = None) -> bool:
            return can_be_saved(value, -1 if value is much.second else until)

        for _ in range(2):
            assert [place[0] for place, _ in saved(came, patient, said.append)["changed"]] == ["keeps_less"]
    assert len(said) == 1 and said[0].startswith("What has changed inside of keeps_much since it was imported is in no")


def test_a_librarys_own_generator_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "draws_own.py").write_text("import random\nclass Own: rng = random.Random()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(page, "watch", watch := Watch())
    watch.begin()
    own: Any = import_module("draws_own").Own
    watch.end()
    own.rng.seed(3)

    taken = saved(Came({}, {}, frozenset({"draws_own"})), anything, pytest.fail)
    drawn = own.rng.random()
    restored(taken)

    assert own.rng.random() == drawn


def test_what_modules_took_of_earlier_cells_and_their_magics_hold_after_a_resume(registry: Any) -> None:
    class Old: ...

    class Mine: ...

    registry.Kept = type("Kept", (Old,), {})
    taken: Any = (
        (("a_registry", ()), ("names", ({"make": Mine}, []))),
        (("a_registry", ((".", "Kept"),)), ("names", ({"__bases__": (Mine,)}, []))),
        (("not_imported_here", ()), ("names", ({"make": Mine}, []))),
    )
    came = restored(
        saved(Came({}, {}, magics=(("line", "twice", "function", Mine),), taken=taken), anything, pytest.fail)
    )

    assert registry.make is Mine and issubclass(registry.Kept, Mine) and came.taken == taken
    assert magics.functions.pop(("line", "twice")) is Mine and came.magics and not came.remarks


def test_a_name_that_a_library_gave_to_numpy_is_there_after_a_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """recbole's, for libraries that say `numpy.float`: in a function that is called once."""
    numpy: Any = import_module("numpy")
    monkeypatch.setattr(page, "watch", watch := Watch())
    watch.begin()
    watch.end()
    monkeypatch.setattr(numpy, "old_float", numpy.float64, raising=False)
    monkeypatch.setattr(numpy, "_looked_up", 1, raising=False)

    taken = saved(Came({}, {}), anything, pytest.fail)
    del numpy.old_float
    restored(taken)

    assert numpy.old_float is numpy.float64
    assert [change for place, change in taken["changed"]] == [("names", ({"old_float": numpy.float64}, []))]


def test_what_a_cell_set_in_torch_is_there_after_each_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the training cell does not have the name by which it was set: it only calls a function of a module."""
    linear: Any = import_module("torch.nn").Linear

    def mine(self: Any, x: Any) -> Any:
        return x

    came = Came({}, {}, assigned=((("torch.nn.modules.linear", ((".", "Linear"),)), "forward"),))
    for _ in range(2):
        with monkeypatch.context() as patched:
            patched.setattr(linear, "forward", mine)
            taken = saved(came, anything, pytest.fail)
        assert linear.forward is not mine
        with monkeypatch.context() as patched:
            patched.setattr(linear, "forward", linear.forward)  # and back at the end
            came = restored(taken)
            assert linear.forward is mine
