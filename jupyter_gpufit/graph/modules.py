"""A module's own dictionary, its `globals()`: where an object keeps it, it means the module of that name over there.

By value it would take the whole module along, Python's builtins with it, and what came back would be a copy of the
worker's. Nothing can look at each dictionary before it is written, for pickle asks nobody about these. So they are
found among what has been written, which is thrown away then, and written once more with them at its beginning.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container
from importlib import import_module
from types import ModuleType
from typing import Any

Here = tuple[Any, Callable[..., Any], tuple[Any, ...]]  # an object, and how the other process finds its own
_OF_THE_PROCESS = frozenset({"__main__", "__mp_main__"})  # two names of one module


def dictionaries() -> list[tuple[str, dict[str, Any]]]:
    """Of the modules that are loaded, by their names; the notebook's is the namespace, which each side has."""
    loaded = [(name, one) for name, one in list(sys.modules.items()) if isinstance(one, ModuleType)]
    return [(name, one.__dict__) for name, one in loaded if name and name not in _OF_THE_PROCESS]


class Homes:
    """Which modules hold an object under its own name. A notebook has thousands of modules, with a million names: where
    few are asked for each is looked for by itself, and only a library that asks for all its own has them all noted."""

    _FEW = 50  # names; to look for one costs some milliseconds, to note all of them some hundreds

    def __init__(self) -> None:
        self._loaded: list[tuple[str, dict[str, Any]]] = []
        self._when = 0  # how many modules there were
        self._asked: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._all: dict[str, list[tuple[str, dict[str, Any]]]] | None = None

    def of(self, obj: Any) -> str | None:
        name = obj.__name__
        return min((module for module, held in self._holding(name) if held.get(name) is obj), default=None)

    def _holding(self, name: str) -> list[tuple[str, dict[str, Any]]]:
        if self._all is not None:
            return self._all.get(name, [])
        if name not in self._asked:
            if self._when != len(sys.modules):
                self._loaded, self._when = dictionaries(), len(sys.modules)
            self._asked[name] = [one for one in self._loaded if name in one[1]]
            if len(self._asked) > self._FEW:
                self._all = _noted()
        return self._asked[name]


def _noted() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for module, held in dictionaries():
        for name in list(held):
            found.setdefault(name, []).append((module, held))
    return found


def may_hold_one(stream: memoryview) -> bool:
    """Whether a pickle stream has a name in it that each module has."""
    return re.search(rb"__spec__", stream) is not None


def met(written: Container[int]) -> list[Here]:
    """Those among the objects with these id()s."""
    found = {id(one): (one, dictionary_of, (name,)) for name, one in dictionaries() if id(one) in written}
    return list(found.values())


def dictionary_of(name: str) -> dict[str, Any]:
    return vars(import_module(name))
