"""What the user's own modules hold with tensors or arrays in it, as a model that `from model import net` brings.

A training changes it in place, where no name and no attribute becomes another. So it travels as a variable of the
notebook does: whole, with all that it refers to, and back into the very objects. In the other process it stands in each
of these modules in place of what their import has made there.

Not covered: what only a default argument or a closure of a module's function holds, and what cannot travel; the latter
is said.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Container, Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

from ..graph.refusals import why_not
from ..system.objects import module_of
from ..system.packages import is_installed
from .holders import Place, is_of_python, root

_MOST = 20_000  # objects that are looked through in one value
_CODE = (ModuleType, type, FunctionType, BuiltinFunctionType, CodeType, FrameType)
_HUBS = (logging.Logger, logging.Handler, logging.Manager)  # which lead to those of all libraries
_OF_A_CLASS = (MethodType, property, classmethod, staticmethod)
_PLAIN = (str, bytes, int, float, complex, bool, type(None))
_NOT_THEIRS = frozenset({*sys.stdlib_module_names, "__main__", "__mp_main__", "jupyter_gpufit"})
_PYTHONS = tuple({os.path.join(one, "lib") + os.sep for one in (sys.prefix, sys.base_prefix)})


Value = tuple[Place, str, Any]


def of_modules(packages: Container[str]) -> Iterator[Value]:
    """Those in these packages, and in the user's other modules that these use or share them with.

    Each with the module, or the class in it, whose name it has.
    """
    arrays, passed = _arrays(), dict[type, bool]()
    own = _own() if arrays else {}
    held = {name: list(_in_module(name, module, arrays, passed)) for name, module in own.items()}
    shared: set[int] = set()
    for name in _with_used(own, packages, lambda other: not shared.isdisjoint(id(one[2]) for one in held[other])):
        yield from held[name]
        shared.update(id(value) for _, _, value in held[name])


def used_by(packages: Container[str]) -> set[str]:
    """The user's modules that those in these packages use: no import leads from one to what was there before it."""
    return {*_with_used(_own(), packages, lambda other: False)}


def packages() -> set[str]:
    """Of all modules of the user's, also of those that were imported before anybody looked."""
    return {root(name) for name in _own()}


def named(ids: Container[int]) -> Iterator[Value]:
    """The names that the user's modules have for these objects."""
    for name, module in _own().items():
        yield from (((name, ()), key, value) for key, value in list(vars(module).items()) if id(value) in ids)


def is_in_one(module: str) -> bool:
    found = sys.modules.get(module)
    return isinstance(found, ModuleType) and _is_own(module, found)


def _own() -> dict[str, ModuleType]:
    loaded = list(sys.modules.items())
    return {name: module for name, module in loaded if isinstance(module, ModuleType) and _is_own(name, module)}


def _with_used(
    own: Mapping[str, ModuleType], packages: Container[str], is_shared: Callable[[str], bool]
) -> Iterator[str]:
    todo = [name for name in own if root(name) in packages]
    met = set(todo)
    for name in todo:
        yield name
        used = {_home(value) for value in list(vars(own[name]).values())}
        for other in own.keys() - met:
            if other in used or is_shared(other):
                met.add(other)
                todo.append(other)


def _home(value: Any) -> str:
    """The module that it is, or whose code it is."""
    if isinstance(value, ModuleType):
        return value.__name__
    return module_of(value) if isinstance(value, (type, FunctionType)) else ""


def _in_module(name: str, module: ModuleType, arrays: tuple[type, ...], passed: dict[type, bool]) -> Iterator[Value]:
    homes: list[tuple[Place, dict[str, Any]]] = [((name, ()), dict(vars(module)))]
    for key, value in homes[0][1].items():
        if isinstance(value, type) and value.__module__ == name:
            homes.append(((name, ((".", key),)), dict(vars(value))))
    for place, held in homes:
        for key, value in held.items():
            if not is_of_python(key) and _reaches(value, arrays, passed):
                yield place, key, value


def _is_own(name: str, module: ModuleType) -> bool:
    file = module.__dict__.get("__file__")
    if not isinstance(file, str) or not os.path.isabs(file) or root(name) in _NOT_THEIRS:
        return False  # `torch.ops` says that its file is "_ops.py"
    return not is_installed(file) and not file.startswith(_PYTHONS)


def _arrays() -> tuple[type, ...]:
    found = [("torch", "Tensor"), ("numpy", "ndarray")]
    return tuple(getattr(sys.modules[module], name) for module, name in found if module in sys.modules)


def _reaches(value: Any, arrays: tuple[type, ...], passed: dict[type, bool]) -> bool:
    """`passed`: whether objects of a class are passed over, of those that were asked."""
    if issubclass(type(value), _OF_A_CLASS) or _is_passed(type(value), passed):
        return False
    met, todo = {id(value)}, [value]
    for one in todo:
        if issubclass(type(one), arrays):
            return True
        for part in gc.get_referents(one):
            if id(part) not in met and not _is_passed(type(part), passed):
                met.add(id(part))
                todo.append(part)
        if len(todo) > _MOST:
            return False
    return False


def _is_passed(cls: type, passed: dict[type, bool]) -> bool:
    """Code, values that refer to nothing, and what leads to all of a process (the shell, a logger)."""
    if cls not in passed:
        passed[cls] = cls in _PLAIN or issubclass(cls, (*_CODE, *_HUBS)) or why_not(cls) is not None
    return passed[cls]
