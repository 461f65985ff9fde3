"""What a training has put into modules: attributes that cells set, and the data of the user's own modules.

Modules are imported again where the training goes on, and are then as their files make them. A cell that says
`torch.nn.Linear.forward = mine` or `settings.rate = 3` has changed one, and so may any function of the user's own. With
an own module goes what its classes and functions hold as attributes: `Config.seen`, `step.calls`.

Not covered: what library code keeps for itself, setattr() and monkeypatches that an own module makes in a library.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import EnumType
from typing import Any

from ..graph.put_back import Lost
from ..graph.stream import Namespace
from ..program.libraries.versions import record
from ..surroundings.assignments import targets, targets_in
from ..system.packages import file_of
from .own_files import homes, is_own

_CODE = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_HOLDING = (type, types.FunctionType)  # code whose attributes are data
_LIBRARIES = frozenset(name.partition(".")[0] for name in (*record(), "numpy"))  # wherever they stand
_MISSING = object()

Attribute = tuple[Any, tuple[str, ...], Any]  # a module or class, the way from there, and the value
Contents = dict[str, dict[str, Any]]  # of modules, and of classes and functions in them, by name


def attributes_set(program: Mapping[str, Any], namespace: Namespace) -> list[Attribute]:
    """The attributes of modules and library classes that the cells assign, with their values by now.

    `program`: what Program.saved() gives, the texts of earlier cells and the pickled tree of this one.
    """
    found: list[Attribute] = []
    set_by = [targets(text) for text in program["texts"].values()]
    if program.get("cell") is not None:
        set_by.append(_targets(program["cell"][1]))
    for root, *path in dict.fromkeys(target for found_in in set_by for target in found_in):
        home = namespace.get(root)
        if not isinstance(home, types.ModuleType | type) or getattr(home, "__module__", "") == "__main__":
            continue
        value: Any = home
        for name in path:
            value = getattr(value, name, _MISSING)
        if value is not _MISSING:
            found.append((home, tuple(path), value))
    return found


def lost(found: Iterable[Attribute]) -> Iterator[Lost]:
    """Those of modules themselves, which may not have them in another process."""
    for home, path, value in found:
        *within, name = path
        for step in within:
            home = getattr(home, step, None)
        if isinstance(home, types.ModuleType):
            yield home.__name__, name, value


@functools.lru_cache(maxsize=64)
def _targets(cell: bytes) -> tuple[tuple[str, ...], ...]:
    return targets_in(pickle.loads(cell))


def put_attributes(found: Iterable[Attribute]) -> None:
    for home, (*path, last), value in found:
        for name in path:
            home = getattr(home, name)
        if getattr(home, last, _MISSING) is not value:
            setattr(home, last, value)


def own_modules() -> Iterator[tuple[str, types.ModuleType]]:
    """Those whose files are the user's own, each by its name in sys.modules: deepxde's call themselves otherwise."""
    where = homes()
    for name, module in list(sys.modules.items()):
        if name == "__main__" or not issubclass(type(module), types.ModuleType) or not (file := file_of(module)):
            continue
        if name.partition(".")[0] not in _LIBRARIES and is_own(file, where):
            yield name, module


def held_by(own: Iterable[tuple[str, types.ModuleType]], can_be_saved: Callable[[Any], bool]) -> Contents:
    """The data of these modules, without what cannot be saved, and the methods of it that they have names for."""
    own = list(own)
    found: Contents = {}
    for at, module in own:
        for place, contents in own_data(at, module):
            if kept := {name: value for name, value in contents.items() if can_be_saved(value)}:
                found[place] = kept
    data = {id(value) for contents in found.values() for value in contents.values()}
    for at, module in own:
        # `add = _store.add` would go on with the store that the module makes when it is imported again.
        methods = {name: value for name, value in vars(module).items() if isinstance(value, types.MethodType)}
        if of_data := {name: value for name, value in methods.items() if id(value.__self__) in data}:
            found.setdefault(at, {}).update(of_data)
    return found


def own_data(at: str, module: types.ModuleType) -> Iterator[tuple[str, dict[str, Any]]]:
    """What it and the classes and functions in it hold that is not code, under its name: module, module:Class.f."""
    yield at, _data(module)
    for name, value in list(vars(module).items()):
        is_here = getattr(value, "__module__", "") == at and getattr(value, "__qualname__", "") == name
        if is_here and isinstance(value, _HOLDING) and not isinstance(value, EnumType):
            yield f"{at}:{name}", _data(value)
            for method, own in list(vars(value).items()) if isinstance(value, type) else ():
                if isinstance(own, types.FunctionType) and (data := _data(own)):
                    yield f"{at}:{name}.{method}", data


def _data(home: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(home).items()
        if not name.startswith("__")
        and not isinstance(value, _CODE)
        and type(value) is not object  # a mark that is compared by `is`, also by the defaults of functions
        and not (isinstance(home, type) and hasattr(type(value), "__get__"))  # a property, a slot
    }


def put_data(found: Contents) -> None:
    for place, contents in found.items():
        module, _, name = place.partition(":")
        home: Any = sys.modules.get(module)
        for part in name.split(".") if name else ():
            home = None if home is None else vars(home).get(part)
        if isinstance(home, types.ModuleType | types.FunctionType):
            vars(home).update(contents)
        elif isinstance(home, type):
            for attribute, value in contents.items():
                if vars(home).get(attribute, _MISSING) is not value:
                    type.__setattr__(home, attribute, value)


def stamps() -> dict[str, tuple[str, int, int]]:
    """The file, its time and size of each."""
    found = {}
    for name, module in own_modules():
        try:
            at = os.stat(str(module.__file__))
        except OSError:
            continue
        found[name] = (str(module.__file__), at.st_mtime_ns, at.st_size)
    return found


def changed_files(then: Mapping[str, tuple[str, int, int]]) -> list[str]:
    """Sentences about those that are not what they were."""
    changed = []
    for file, time, size in then.values():
        try:
            now = os.stat(file)
        except OSError:
            changed.append(f"{file} was imported when the checkpoint was taken, and is gone.")
            continue
        if (now.st_mtime_ns, now.st_size) != (time, size):
            changed.append(f"{file} has changed since the checkpoint: the training goes on with what it says now.")
    return changed
