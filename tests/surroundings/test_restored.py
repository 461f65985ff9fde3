"""What a checkpoint brings of a module is set where it stands, unless the training has the very object."""

from __future__ import annotations

import sys
from types import MappingProxyType, ModuleType
from typing import Any

import pytest

from jupyter_gpufit.surroundings.travel import restored


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that shows its dict to others when it is imported."""
    module: Any = ModuleType("a_registry")
    module._known = {"one": 1}
    module.known = MappingProxyType(module._known)
    monkeypatch.setitem(sys.modules, "a_registry", module)
    return module


def _restore(saved: dict[str, int]) -> None:
    entry: tuple[Any, ...] = (("a_registry", ((".", "_known"),)), saved, ("names", ({"two": 2}, [])))
    restored({"changed": [entry], "causes": {}, "argv": list(sys.argv), "process": {}, "packages": []})


def test_what_only_the_module_has_stays_the_object_that_others_saw(registry: Any) -> None:
    _restore({"one": 1, "two": 2})

    registry._known["three"] = 3
    assert dict(registry.known) == {"one": 1, "two": 2, "three": 3}


def test_what_the_training_has_becomes_the_modules(registry: Any) -> None:
    mine = {"one": 1, "two": 2}
    trained = [mine]
    _restore(mine)

    assert registry._known is trained[0]
