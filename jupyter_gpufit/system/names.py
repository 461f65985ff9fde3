"""Functions replaced under every name that a module or a class keeps of them, not only where they are at home.

`from os import listdir` keeps one, so do Python's own `posix`, and from Python 3.13 on the class by which a path globs.

Not covered: what lists, objects, closures and defaults of arguments hold; and, of a module that was looked at before,
a name that has got another value since.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

_Function: TypeAlias = Callable[..., Any]
_OURS = __name__.partition(".")[0]  # who keeps a real one here needs the real one


@dataclass(frozen=True)
class Holders:
    """Who keeps some functions, of the modules that were looked at."""

    functions: Collection[int] = ()  # by their ids
    found: Sequence[tuple[ModuleType | type, str]] = ()  # with the name
    looked_at: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # a module by its name: its id and its size


def holders_of(functions: Iterable[_Function], known: Holders | None = None) -> Holders:
    """In all modules of this process but ours, and in the classes that are at home there.

    To look at an object is to write to its page: a forked child that looks copies all that it shares. So who forks
    looks before, once, and after that everybody only at modules that have come or grown since what is `known`.
    """
    wanted = {id(one) for one in functions}
    if known is None or known.functions != wanted:
        known = Holders()
    found, looked_at = [*known.found], {**known.looked_at}
    for name, module in list(sys.modules.items()):
        if not issubclass(type(module), ModuleType) or _is_ours(module):
            continue
        now = id(module), len(vars(module))
        if looked_at.get(name) != now:
            looked_at[name] = now
            found += _held_in(module, wanted)
    return Holders(wanted, found, looked_at)


def _held_in(module: ModuleType, wanted: Collection[int]) -> Iterator[tuple[ModuleType | type, str]]:
    home = vars(module).get("__name__")
    for name, value in list(vars(module).items()):
        if id(value) in wanted:
            yield module, name
        elif issubclass(type(value), type) and value.__module__ == home:
            for inner, one in list(vars(value).items()):
                if id(_inside(one)) in wanted:
                    yield value, inner


def replace_everywhere(pairs: Iterable[tuple[_Function, _Function]], known: Holders | None = None) -> None:
    """Each first by its second, wherever it is held; `known`: where they were found already."""
    instead = {id(real): (real, new) for real, new in pairs}
    for owner, name in holders_of([real for real, _ in instead.values()], known).found:
        value = vars(owner).get(name)
        _, new = instead.get(id(_inside(value)), (None, None))
        if new is None:
            continue  # it was replaced there already
        if isinstance(owner, ModuleType):
            vars(owner)[name] = new
        else:
            # A compiled function in a class takes no object as its first argument, and ours would.
            setattr(owner, name, new if type(value) is FunctionType else staticmethod(new))


def _inside(value: object) -> object:
    return value.__func__ if issubclass(type(value), staticmethod) else value  # type: ignore[attr-defined]


def _is_ours(module: ModuleType) -> bool:
    name = vars(module).get("__name__")
    return isinstance(name, str) and name.partition(".")[0] == _OURS
