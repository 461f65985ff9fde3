"""Functions replaced under every name that a module or a class keeps of them, not only where they are at home.

`from os import listdir` keeps one, so do Python's own `posix`, and from Python 3.13 on the class by which a path globs.

Not covered: what lists, objects, closures and defaults of arguments hold.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

_Function: TypeAlias = Callable[..., Any]
_OURS = __name__.partition(".")[0]  # who keeps a real one here needs the real one


def replace_everywhere(pairs: Iterable[tuple[_Function, _Function]]) -> None:
    """Each first by its second, in all modules of this process but ours, and in the classes that are at home there."""
    instead = {id(real): new for real, new in pairs}
    for module in list(sys.modules.values()):
        if not issubclass(type(module), ModuleType) or _is_ours(module):
            continue
        held = vars(module)
        for name, value in list(held.items()):
            if id(value) in instead:
                held[name] = instead[id(value)]
            elif issubclass(type(value), type) and value.__module__ == held.get("__name__"):
                _replace_in(value, instead)


def _is_ours(module: ModuleType) -> bool:
    name = vars(module).get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == _OURS


def _replace_in(cls: type, instead: dict[int, _Function]) -> None:
    for name, value in list(vars(cls).items()):
        is_static = issubclass(type(value), staticmethod)
        new = instead.get(id(value.__func__ if is_static else value))
        if new is not None:
            # A compiled function in a class takes no object as its first argument, and ours would.
            is_method = not is_static and type(value) is FunctionType
            setattr(cls, name, new if is_method else staticmethod(new))
