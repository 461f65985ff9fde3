"""The module that a text has which runs: no import finds it, and its functions' globals are its variables."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced, kind_of
from ...program.values import hidden

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_module) if cls is ModuleType else None


def reduce_module(module: Any, pickler: SnapshotPickler) -> Reduced:
    if pickler.ran is None or not pickler.ran.is_main(module):
        return kind_of(ModuleType, {}).reduce(module, pickler)
    held = {name: one for name, one in vars(module).items() if not hidden(name) and name != "__builtins__"}
    return ModuleType, (module.__name__,), held, None, None, fill_module


def fill_module(module: ModuleType, held: dict[str, Any]) -> None:
    vars(module).update(held)
