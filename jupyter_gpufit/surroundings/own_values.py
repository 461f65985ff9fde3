"""What the user's own modules hold with tensors or arrays in it, as a model that `from model import net` brings.

A training changes it in place, where no name and no attribute becomes another. So it travels as a variable of the
notebook does: whole, with all that it refers to, and back into the very objects. In the other process it stands in each
of these modules in place of what their import has made there.

So does what only a function keeps, as a default of an argument or in its closure. Not covered: what cannot travel,
which is said, and what functions inside of others keep.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from ..graph.refusals import why_not
from ..system.objects import module_of
from ..system.packages import is_of_the_user
from .changes import kept_by
from .holders import Place, is_of_python, is_state, root
from .imports import NOT_PACKAGES

_MOST = 20_000  # objects that are looked through in one value
_CODE = (ModuleType, type, FunctionType, BuiltinFunctionType, CodeType, FrameType)
_HUBS = (logging.Logger, logging.Handler, logging.Manager)  # which lead to those of all libraries
_OF_A_CLASS = (MethodType, property, classmethod, staticmethod)
_PLAIN = (str, bytes, int, float, complex, bool, type(None))


Value = tuple[Place, str, Any]


def of_modules(packages: Container[str]) -> Iterator[Value]:
    """Those in these packages, and in the user's other modules that these use or share them with.

    Each with the module, or the class in it, whose name it has.
    """
    search = _Search()
    own = _own() if search.arrays else {}
    held = {name: list(_in_module(name, module, search)) for name, module in own.items()}
    sharing = _sharing({name: [value for _, _, value in values] for name, values in held.items()})
    for name in _with_used(own, packages, sharing):
        yield from held[name]


def used_by(packages: Container[str]) -> dict[str, ModuleType]:
    """The user's modules that those in these packages use: no import leads from one to what was there before it."""
    own = _own()
    held: dict[str, list[Any]] = {name: [] for name in own}
    for (name, _), value in shared_names().items():
        held[name].append(value)
    return {name: own[name] for name in _with_used(own, packages, _sharing(held))}


def shared_names() -> dict[tuple[str, str], Any]:
    """What the user's modules have under their names that others may have, too."""
    return {
        (name, key): value
        for name, module in _own().items()
        for key, value in list(vars(module).items())
        if key.isidentifier() and not is_of_python(key) and _is_shared(value) and not _is_its_librarys(key, value)
    }


def packages() -> set[str]:
    """Of all modules of the user's, also of those that were imported before anybody looked."""
    return {root(name) for name in _own()}


def named(ids: Container[int]) -> Iterator[Value]:
    """The names that the user's modules have for these objects."""
    for name, module in _own().items():
        yield from (((name, ()), key, value) for key, value in list(vars(module).items()) if id(value) in ids)


def arrays_in() -> Callable[[Any], bool]:
    """Whether a value holds any."""
    return _Search().reaches


def is_in_one(module: str) -> bool:
    found = sys.modules.get(module)
    return isinstance(found, ModuleType) and _is_own(module, found)


def _own() -> dict[str, ModuleType]:
    loaded = list(sys.modules.items())
    return {name: module for name, module in loaded if isinstance(module, ModuleType) and _is_own(name, module)}


def _with_used(
    own: Mapping[str, ModuleType], packages: Container[str], sharing: Mapping[str, Iterable[str]]
) -> Iterator[str]:
    todo = [name for name in own if root(name) in packages]
    met = set(todo)
    for name in todo:
        yield name
        used = {_home(value) for value in list(vars(own[name]).values())}
        more = sorted((own.keys() & used.union(sharing.get(name, ()))) - met)
        met.update(more)
        todo += more


def _sharing(held: Mapping[str, Iterable[Any]]) -> dict[str, set[str]]:
    """Which modules have an object in common, as after `from options import args`."""
    homes: dict[int, list[str]] = {}
    for name, values in held.items():
        for value in values:
            homes.setdefault(id(value), []).append(name)
    return {name: {other for value in values for other in homes[id(value)]} for name, values in held.items()}


def _is_shared(value: Any) -> bool:
    """Whether modules that have it share what it becomes; many have the same number, or function of a library."""
    return not issubclass(type(value), (*_CODE, *_OF_A_CLASS, *_HUBS)) and is_state(value)


def _is_its_librarys(key: str, value: Any) -> bool:
    """As `annotations`, which `from __future__ import annotations` leaves in a module."""
    home = sys.modules.get(module_of(type(value)))
    return home is not None and vars(home).get(key) is value and not is_in_one(home.__name__)


def _home(value: Any) -> str:
    """The module that it is, or whose code it is."""
    if isinstance(value, ModuleType):
        return value.__name__
    return module_of(value) if isinstance(value, (type, FunctionType)) else ""


def _in_module(name: str, module: ModuleType, search: _Search) -> Iterator[Value]:
    homes: list[tuple[Place, dict[str, Any]]] = [((name, ()), dict(vars(module)))]
    for key, value in homes[0][1].items():
        if isinstance(value, type) and value.__module__ == name:
            homes.append(((name, ((".", key),)), dict(vars(value))))
    for place, held in homes:
        for key, value in held.items():
            if not is_of_python(key) and search.reaches(value):
                yield place, key, value
            if isinstance(value, FunctionType) and value.__module__ == name:
                function = name, (*place[1], (".", key))
                yield from ((function, part, kept) for part, kept in kept_by(value) if search.reaches(kept))


def _is_own(name: str, module: ModuleType) -> bool:
    file = module.__dict__.get("__file__")
    return isinstance(file, str) and root(name) not in NOT_PACKAGES and is_of_the_user(file)


def _arrays() -> tuple[type, ...]:
    found = [("torch", "Tensor"), ("numpy", "ndarray")]
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


class _Search:
    """For what refers to tensors and arrays; what has none need be looked through once."""

    def __init__(self) -> None:
        self.arrays = _arrays()
        self._passed: dict[type, bool] = {}  # classes whose objects are passed over, of those that were asked
        self._known: dict[int, bool] = {}

    def reaches(self, value: Any) -> bool:
        if issubclass(type(value), _OF_A_CLASS) or self._is_passed(type(value)):
            return False
        if id(value) not in self._known:
            self._known[id(value)] = self._looked_through(value)
        return self._known[id(value)]

    def _looked_through(self, value: Any) -> bool:
        met, todo = {id(value)}, [value]
        for one in todo:
            if issubclass(type(one), self.arrays) or self._known.get(id(one), False):
                return True
            for part in gc.get_referents(one):
                if id(part) not in met and self._known.get(id(part), True) and not self._is_passed(type(part)):
                    met.add(id(part))
                    todo.append(part)
            if len(todo) > _MOST:
                return False
        self._known.update(dict.fromkeys(met, False))
        return False

    def _is_passed(self, cls: type) -> bool:
        """Code, values that refer to nothing, and what leads to all of a process (the shell, a logger)."""
        if cls not in self._passed:
            self._passed[cls] = cls in _PLAIN or issubclass(cls, (*_CODE, *_HUBS)) or why_not(cls) is not None
        return self._passed[cls]
