"""Names that libraries add to packages whose changes are not looked for: `numpy.float = numpy.float64`.

Such a call is made once, and the process that goes on with its training has the package as its files make it. Not
covered: names that a package had and that were set to something else, its submodules, and packages that are imported
later. The tables of pandas are where libraries put methods of theirs (`tqdm.pandas()`), and people their accessors:
those are found by whose code they are, whenever pandas was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from ..system.objects import module_of
from .changes import Change
from .holders import Place, own_names, root

_TABLES = ("pandas", "pandas.core.groupby", "pandas.core.window")  # modules that show the classes of tables
_NOT_ADDED = frozenset({"pandas", *sys.stdlib_module_names})  # Python's: its named tuples' methods


class AddedNames:
    """What was added to each package since it was looked at."""

    def __init__(self) -> None:
        self._then: dict[str, frozenset[str]] = {}

    def begin(self, packages: frozenset[str]) -> None:
        for name in packages & sys.modules.keys():
            self._then[name] = frozenset(own_names(sys.modules[name]) or ())

    def changes(self, can_be_saved: Callable[[Any], bool]) -> Iterator[Change]:
        for package, then in self._then.items():
            own = own_names(sys.modules.get(package)) or {}
            anew = {name: own[name] for name in own.keys() - then if _counts(package, name, own[name])}
            if kept := {name: value for name, value in sorted(anew.items()) if can_be_saved(value)}:
                yield (package, ()), ("names", (kept, []))
        for place, name, value in methods():
            if can_be_saved(value):
                yield place, ("names", ({name: value}, []))


def methods() -> Iterator[tuple[Place, str, Any]]:
    """Of the classes of tables, those that are not pandas' own."""
    for module in filter(None, map(sys.modules.get, _TABLES)):
        for name, cls in list(vars(module).items()):
            if isinstance(cls, type):
                for key, value in list(vars(cls).items()):
                    code = value if isinstance(value, FunctionType) else getattr(value, "_accessor", None)
                    if code is not None and root(module_of(code)) not in _NOT_ADDED:
                        yield (module.__name__, ((".", name),)), key, value


def _counts(package: str, name: str, value: Any) -> bool:
    """Not what a package imports, or looks up in itself when it is first asked for it."""
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    own = root(str(getattr(value, "__module__", ""))) == package
    return not (own and getattr(value, "__name__", "") == name)
