"""Modules that no import finds, for cells put them into `sys.modules`: made by hand, loaded from a file by its path,
or a module under a second name.

Whoever imports them where a cell is sent, as a library did here, finds them. One that was made by hand stands at the
beginning of the stream with what it holds; the others are only named, and loaded when something asks for them and
nothing else finds them.

Not covered: one made by hand that holds code by its own name or what cannot travel, and one made by hand inside of a
library's package with code of that package, as libraries make theirs. Whoever needs those says what is missing.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import FunctionType, ModuleType
from typing import Any

from ..system.objects import module_of
from ..system.packages import file_of, is_installed, stated
from .modules import Here

Named = dict[str, str]
_PLAIN = (str, bytes, int, float, complex, type(None), tuple, list, dict, set, frozenset)
_NOT_THEIRS = frozenset({*sys.stdlib_module_names, "__main__", "__mp_main__"})


def beyond_imports(travels: Callable[[Any], bool]) -> list[Here]:
    """What the other process registers before it opens anything. `travels` says whether a value can."""
    second, by_path, made = dict(_LAST.second), dict(_LAST.by_path), {}
    for name, module in list(sys.modules.items()):
        if not name or _is_imported(name, module) or (root := name.partition(".")[0]) in _NOT_THEIRS:
            continue
        spec = _spec(module)
        if spec is None or _says_nothing(spec):
            if (
                (_is_made(root) or _is_put_into(name, module))
                and travels(held := _contents(module))
                and not _by_its_name(name, held)
            ):
                made[name] = module
        elif spec.name != name:
            if sys.modules.get(spec.name) is module:
                second[name] = spec.name
        elif name == root and spec.has_location and _is_found_by_nobody(spec):
            by_path[name] = str(spec.origin)
    there: list[Here] = [(second, named, (second, by_path))] if second or by_path else []
    modules = {name: module for name, module in made.items() if type(module) is ModuleType}
    there += [(module, registered, (name, _spec(module) is not None)) for name, module in modules.items()]
    there += [(held := _contents(module), filled, (name, held)) for name, module in made.items()]
    return there


def named(second: Named, by_path: Named) -> Named:
    _LAST.second.update(second)
    _LAST.by_path.update(by_path)
    if _LAST not in sys.meta_path:
        sys.meta_path.append(_LAST)
    return second


def loaded_from(name: str, path: str) -> ModuleType:
    """A compiled module that nobody put into `sys.modules`; here its name leads to it."""
    named({}, {name: path})
    return import_module(name)


def registered(name: str, has_spec: bool = False) -> Any:
    made = sys.modules.setdefault(name, ModuleType(name))
    if has_spec and made.__spec__ is None:
        made.__spec__ = ModuleSpec(name, None)
    return made


def filled(name: str, held: Any) -> Any:
    if type(module := sys.modules.setdefault(name, held)) is ModuleType and isinstance(held, dict):
        vars(module).update(held)
    return held


class _Last(MetaPathFinder):
    """Asked when no other finder knows the name."""

    def __init__(self) -> None:
        self.second: Named = {}
        self.by_path: Named = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name in self.second:
            return ModuleSpec(name, _AsItself(self.second[name]))
        return spec_from_file_location(name, self.by_path[name]) if name in self.by_path else None


class _AsItself(Loader):
    """The module of another name, and not a copy of it."""

    def __init__(self, of: str) -> None:
        self._of = of

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(self._of)


_LAST = _Last()


def _is_imported(name: str, module: Any) -> bool:
    """Whether it says that an import finds it in its package, as nearly all of a notebook's thousands do."""
    spec = module.__dict__.get("__spec__") if type(module) is ModuleType else None
    return type(spec) is ModuleSpec and spec.name == name and spec.loader is not None and "." in name


def _spec(module: Any) -> ModuleSpec | None:
    spec = stated(module, "__spec__")
    return spec if isinstance(spec, ModuleSpec) else None


def _says_nothing(spec: ModuleSpec) -> bool:
    """One that a cell gave to a module of its own, for libraries that ask whether it can be imported."""
    return spec.loader is None and spec.origin is None and not spec.submodule_search_locations


def _is_made(root: str) -> bool:
    """Whether nothing of its package was imported: a library that makes modules does so in its own, or beside files."""
    package = sys.modules.get(root)
    spec = _spec(package)
    return (spec is None or _says_nothing(spec)) and not file_of(package)


def _is_put_into(name: str, module: Any) -> bool:
    """Whether one inside of a package (a `torch._six` for an old repository) holds nothing of that package's code.

    Of an installed one it must hold another's code: compiled libraries make modules of numbers and texts.
    """
    root = name.partition(".")[0]
    held = _contents(module) if type(module) is ModuleType else {}
    values = [value for key, value in held.items() if key != "__doc__"]
    if not values or not all(isinstance(value, _PLAIN) or _is_of_another(value, root) for value in values):
        return False
    inner = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
    file = file_of(sys.modules.get(root))
    return (file != "" and not is_installed(file)) or any(_is_of_another(one, root) for one in inner)


def _is_of_another(value: Any, root: str) -> bool:
    if not isinstance(value, (type, FunctionType, ModuleType)):
        return False
    home = value.__name__ if isinstance(value, ModuleType) else module_of(value)
    if isinstance(value, ModuleType) and sys.modules.get(home) is not value:
        return False  # an inner one of Rust's, which is called by its last name alone
    return not _is_of_no_module(value) and home.partition(".")[0] != root


def _is_of_no_module(value: Any) -> bool:
    """A class of compiled code that says so: Rust's, and those that Cython's modules have in common."""
    return (
        isinstance(value, type)
        and module_of(value) == "builtins"
        and getattr(builtins, value.__name__, None) is not value
    )


def _contents(module: Any) -> Any:
    if type(module) is not ModuleType:
        return module
    return {name: value for name, value in vars(module).items() if name not in _SET_BY_PYTHON}


_SET_BY_PYTHON = frozenset({*vars(ModuleType("")), "__builtins__"}) - {"__doc__"}


def _by_its_name(name: str, held: Any) -> bool:
    """Whether it holds what is found in it alone, which must be made there as it was here."""
    values = held.values() if isinstance(held, dict) else ()
    return any(module_of(value) == name or _is_of_no_module(value) or _names_none(value) for value in values)


def _names_none(value: Any) -> bool:
    """A class that says what its objects' module is, in place of its own: the functions of Cython's code, up to 3.1."""
    return isinstance(value, type) and not isinstance(value.__module__, str)


def _is_found_by_nobody(spec: ModuleSpec) -> bool:
    """Unless a library found it, as the kernel's debugger does: whoever needs it there does the same there."""
    return not (is_installed(str(spec.origin)) or _is_where_an_import_looks(spec))


def _is_where_an_import_looks(spec: ModuleSpec) -> bool:
    """By the folders alone: a name that is told in vain is never asked for."""
    folder, file = os.path.split(os.path.abspath(str(spec.origin)))
    stem = file.partition(".")[0]
    if stem == "__init__":
        folder, stem = os.path.split(folder)
    return stem == spec.name and folder in map(os.path.abspath, sys.path)
