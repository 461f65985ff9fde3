"""Iterators that show nothing of where they are, exchanged where a loop begins for ones that do.

Only those that nobody but the loop holds, so that nobody can see the difference. Here are Python's own; `library` knows
generators.
"""

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from inspect import GEN_CREATED, getgeneratorstate
from itertools import islice
from operator import length_hint
from types import GeneratorType
from typing import Any

Remade = Callable[[Any], Any]  # a library's generator, as one that can be saved

_BY_CALLING = type(iter(int, 1))  # what re.finditer() gives: an iterator that calls a scanner
_SCANNER = type(re.compile("").scanner(""))  # type: ignore[attr-defined]
_DIRECTORY = next(cls for cls in object.__subclasses__() if cls.__name__ == "ScandirIterator")  # os.scandir()'s


_RANGE = type(iter(range(0)))
# These forget how many items they had, or consist of such; who watches a loop wants to know.
FORGETFUL: frozenset[type] = frozenset({_RANGE, zip, enumerate} if sys.version_info >= (3, 12) else ())


def items_of_ranges(iterator: Any) -> int | None:
    """What the ranges in one of the FORGETFUL still have to give; None: there are none in it."""
    if type(iterator) is _RANGE:
        return length_hint(iterator)
    if type(iterator) not in FORGETFUL:
        return None
    parts = iterator.__reduce__()[1]
    items = map(items_of_ranges, parts[:1] if type(iterator) is enumerate else parts)
    return min((one for one in items if one is not None), default=None)


def exchanged(iterator: Any, remade: Remade) -> Any:
    """What a loop goes over instead of an iterator that nobody else holds; or itself."""
    way = _WAYS.get(type(iterator))
    return iterator if way is None else way(iterator, remade)


class Matches:
    """re.finditer(), which knows how many it has given."""

    def __init__(self, pattern: re.Pattern[Any], string: Any, begin: int, end: int, given: int = 0) -> None:
        self._of, self._given = (pattern, string, begin, end), given
        self._left: Iterator[re.Match[Any]] = islice(pattern.finditer(string, begin, end), given, None)

    def __iter__(self) -> Iterator[re.Match[Any]]:
        return self

    def __next__(self) -> re.Match[Any]:
        found = next(self._left)
        self._given += 1
        return found

    def __reduce__(self) -> Any:
        return Matches, (*self._of, self._given)


def _matches(iterator: Any, remade: Remade) -> Any:
    search = iterator.__reduce__()[1][0]
    if type(getattr(search, "__self__", None)) is not _SCANNER or search.__name__ != "search":
        return iterator
    found = search()  # which alone tells what is searched
    if found is None:
        return iter(())
    of = found.re, found.string, found.pos, found.endpos
    given = next(number for number, one in enumerate(found.re.finditer(*of[1:])) if one.regs == found.regs)
    return Matches(*of, given)


class Entries:
    """os.scandir(), which has looked already; its caller may close it, or go into it, before the loop."""

    def __init__(self, entries: Iterable[os.DirEntry[Any]]) -> None:
        self._left = deque(entries)

    def __iter__(self) -> Iterator[os.DirEntry[Any]]:
        return self

    def __next__(self) -> os.DirEntry[Any]:
        if not self._left:
            raise StopIteration
        return self._left.popleft()

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._left.clear()

    def __reduce__(self) -> Any:
        return Entries, (list(self._left),)


def _listed(iterator: Any, remade: Remade) -> Any:
    with iterator:
        return Entries(iterator)


# df.itertuples() is a map() over a zip() of generators.
def _with_parts_remade(iterator: Any, remade: Remade) -> Any:
    call, parts, *state = iterator.__reduce__()
    others = _OTHERS[type(iterator)]
    new = [_part(one, remade) if sys.getrefcount(one) == others else one for one in parts]
    if all(one is was for one, was in zip(new, parts, strict=True)):
        return iterator
    made = call(*new)
    if state:
        made.__setstate__(*state)
    return made


def _part(one: Any, remade: Remade) -> Any:
    if type(one) is GeneratorType:
        return remade(one) if getgeneratorstate(one) == GEN_CREATED else one
    return exchanged(one, remade)


def _held_as_part(iterator: Any) -> int:
    """How many references there are to a part that nobody else holds."""
    _, parts, *_ = iterator.__reduce__()
    return [sys.getrefcount(one) for one in parts if type(one) is GeneratorType][0]


def _one() -> Iterator[None]:
    yield


_OTHERS = {
    type(one): _held_as_part(one) for one in (enumerate(_one()), zip(_one()), map(id, _one()), filter(id, _one()))
}
_WAYS: dict[type, Callable[[Any, Remade], Any]] = {
    **dict.fromkeys(_OTHERS, _with_parts_remade),
    _BY_CALLING: _matches,
    _DIRECTORY: _listed,
}
EXCHANGED = frozenset(_WAYS)
