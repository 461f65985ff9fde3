"""A module's own dictionary, its `globals()`: where an object keeps it, it means the module of that name over there.

By value it would take the whole module along, Python's builtins with it, and what came back would be a copy of the
worker's. Nothing can look at each dictionary before it is written, for pickle asks nobody about these. So they are
found among what has been written, which is thrown away then, and written once more with them at its beginning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

Here = tuple[Any, Callable[..., Any], tuple[Any, ...]]  # an object, and how the other process finds its own
_OF_THE_PROCESS = frozenset({"__main__", "__mp_main__"})  # two names of one module


def dictionaries() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of the modules that are loaded, by their names; the notebook's is the namespace, which each side has."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name not in _OF_THE_PROCESS:
            yield name, vars(module)


class Homes:
    """Which modules hold an object under its own name; all are looked through once, when first somebody asks."""

    def __init__(self) -> None:
        self._holding: dict[str, list[tuple[str, dict[str, Any]]]] | None = None

    def of(self, obj: Any) -> str | None:
        if self._holding is None:
            self._holding = {}
            for module, held in dictionaries():
                for name in list(held):
                    self._holding.setdefault(name, []).append((module, held))
        name = obj.__name__
        return min((module for module, held in self._holding.get(name, ()) if held.get(name) is obj), default=None)


def may_hold_one(stream: memoryview) -> bool:
    """Whether a pickle stream has a name in it that each module has."""
    return re.search(rb"__spec__", stream) is not None


def met(written: Container[int]) -> list[Here]:
    """Those among the objects with these id()s."""
    found = {id(one): (one, dictionary_of, (name,)) for name, one in dictionaries() if id(one) in written}
    return list(found.values())


def dictionary_of(name: str) -> dict[str, Any]:
    return vars(import_module(name))
