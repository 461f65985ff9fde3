"""Context variables: a library's by the name that it has there, the notebook's with what they hold at the moment."""

from __future__ import annotations

import sys
from contextvars import Context, ContextVar, copy_context
from types import ModuleType
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import find_in_module


def reduce_variable(variable: ContextVar[Any], pickler: Pickler) -> Reduced:
    for name, module in sorted(sys.modules.items()):
        if type(module) is ModuleType and vars(module) is not pickler.namespace and name != "__main__":
            for held, value in list(vars(module).items()):  # a thread may import meanwhile
                if value is variable:
                    return find_in_module, (name, held)
    return make_variable, (variable.name, *_otherwise(variable)), value_of(variable), None, None, set_value


def _otherwise(variable: ContextVar[Any]) -> tuple[Any, ...]:
    """Its default, if it has one."""
    try:
        return (Context().run(variable.get),)
    except LookupError:
        return ()


def make_variable(name: str, *otherwise: Any) -> ContextVar[Any]:
    return ContextVar(name, default=otherwise[0]) if otherwise else ContextVar(name)


def value_of(variable: ContextVar[Any]) -> tuple[Any, ...]:
    here = copy_context()
    return (here[variable],) if variable in here else ()


def set_value(variable: ContextVar[Any], held: tuple[Any, ...]) -> None:
    if held:
        variable.set(held[0])


_VARIABLE = Kind(reduce=reduce_variable, state=value_of, fill=set_value)


def find(cls: type) -> Kind | None:
    return _VARIABLE if cls is ContextVar else None
