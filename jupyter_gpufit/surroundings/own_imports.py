"""The libraries that the user's own modules work with: a `train.py` beside the notebook imports as a cell would.

What these libraries keep of a run (accelerate's shared states, a registry) is as much the training's as if the notebook
had imported them. Known by what a module's names lead to, and by the names in its code that are loaded packages.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from ..system.objects import module_of
from . import own_values
from .holders import root
from .imports import NOT_PACKAGES


def libraries_of(packages: Container[str]) -> set[str]:
    """Of the user's modules in these packages, and of those that they use."""
    own = own_values.used_by(packages)
    found = {root(name) for module in own.values() for name in _named_in(module) if name in sys.modules}
    return found - {root(name) for name in own} - NOT_PACKAGES


def _named_in(module: ModuleType) -> Iterator[str]:
    for value in list(vars(module).values()):
        yield value.__name__ if isinstance(value, ModuleType) else module_of(value if _is_code(value) else type(value))
        for function in _functions(value, module.__name__):
            yield from _names(function.__code__)


def _is_code(value: Any) -> bool:
    return isinstance(value, (type, FunctionType, BuiltinFunctionType))


def _functions(value: Any, home: str) -> Iterator[FunctionType]:
    """It, or its methods, where it was written there."""
    for one in vars(value).values() if isinstance(value, type) and value.__module__ == home else (value,):
        if isinstance(one, FunctionType) and one.__module__ == home:
            yield one


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
