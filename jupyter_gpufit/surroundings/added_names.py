"""Names that libraries add to packages whose changes are not looked for: `numpy.float = numpy.float64`.

Such a call is made once, and the process that goes on with its training has the package as its files make it. Not
covered: names that a package had and that were set to something else, its
submodules, and packages that are imported later.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from .changes import Change
from .holders import own_names, root


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


def _counts(package: str, name: str, value: Any) -> bool:
    """Not what a package imports, or looks up in itself when it is first asked for it."""
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    own = root(str(getattr(value, "__module__", ""))) == package
    return not (own and getattr(value, "__name__", "") == name)
