"""Modules are looked at, and never asked."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from jupyter_gpufit.estimate.tracing import read, types_told
from jupyter_gpufit.graph import made_modules, texts
from jupyter_gpufit.snapshot.modules import own_modules
from jupyter_gpufit.surroundings.imports import Watch
from jupyter_gpufit.system.packages import file_of, stated


class Lazy(ModuleType):
    """As speechbrain has them for what is not installed: an import whenever anybody asks for anything."""

    def __getattr__(self, name: str) -> Any:
        raise ImportError(name)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = Lazy("lazy_one")
    del module.__spec__  # as one that was made and not imported
    monkeypatch.setitem(sys.modules, "lazy_one", module)
    monkeypatch.setitem(sys.modules, "no_module", 5)
    monkeypatch.setitem(sys.modules, "a_class", type("Made", (), {"__file__": "/a/b.py"}))
    return module


def test_what_a_module_does_not_state_it_is_not_asked_for(lazy: ModuleType) -> None:
    assert stated(lazy, "__file__") is None and file_of(lazy) == ""
    assert stated(lazy, "__name__") == "lazy_one"
    assert file_of(sys.modules[__name__]) == __file__
    assert [file_of(sys.modules[name]) for name in ("no_module", "a_class")] == ["", ""]
    lazy.__dict__["__file__"] = 5
    assert file_of(lazy) == ""


def test_whoever_goes_through_all_modules_asks_none(lazy: ModuleType) -> None:
    assert "lazy_one" not in dict(own_modules())
    assert all(isinstance(one, frozenset) for one in texts._in_modules())
    assert "lazy_one" not in Watch().installed()
    assert all(read._own_modules())
    told: dict[str, object] = {}
    types_told.begin(told)
    assert "type" not in vars(lazy)
    for module in list(sys.modules.values()):  # of this process, which has other tests to run
        if stated(module, "type") is told["type"]:
            del vars(module)["type"]
    assert made_modules.beyond_imports(lambda value: False) is not None
