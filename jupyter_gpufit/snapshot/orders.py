"""The order of sets, which a loop over one follows and which pickle does not keep.

With the same PYTHONHASHSEED it follows from the elements' hashes, their order of insertion, and those removed since. So
the set's own table is read, a way to fill one like it is computed and tried here and now: what gives the order in this
process gives it in the next one. A number of ours keeps each place that is in use; where all are kept, an element finds
the only one that was given up for it, whatever the history was (an element takes the place of a removed one, too).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

_LEAST = 8  # places in a table, as in CPython's Objects/setobject.c
_MAKE_ROOM = 5  # elements that are too many for those
_BY_VALUE = (str, bytes, int, float, complex, PurePath, date, time, timedelta)


@dataclass(frozen=True)
class Order:
    """How a set is filled so that it has its order again."""

    at_once: list[Any]  # put in through a dict, for whose length the set makes room before it takes the first
    one_by_one: list[Any]
    removed: list[int]  # of these: they only keep a place
    instead: Sequence[tuple[int, Any]] = ()  # what takes whose place; not in checkpoints by earlier versions

    def fill(self, obj: set[Any]) -> None:
        set.clear(obj)
        set.update(obj, dict.fromkeys(self.at_once))
        set.update(obj, self.one_by_one)
        for number, element in self.instead:
            set.discard(obj, number)
            set.add(obj, element)
        for number in self.removed:
            set.discard(obj, number)


def order_of(obj: Any) -> Order | None:
    """None where nothing gives the order of this set again."""
    wanted = list(_iterate(obj))
    for order in _candidates(obj, wanted):
        made: set[Any] = set()
        order.fill(made)
        if len(made) == len(wanted) and _same(made, wanted):
            return order
    return None


def kept_by_pickle(obj: Any) -> bool:
    """Whether a set that is filled in its own order has that order."""
    wanted = list(_iterate(obj))
    return _same(type(obj)(wanted) if type(obj) in (set, frozenset) else set(wanted), wanted)


def by_value(obj: Any) -> bool:
    """Whether all elements are hashed by what they are. By where they are, no two runs have the same order anyway."""
    return len(obj) > 1 and all(map(_by_value, _iterate(obj)))


def _by_value(one: Any) -> bool:
    if isinstance(one, tuple | frozenset):
        return all(map(_by_value, one))
    return isinstance(one, _BY_VALUE) or (isinstance(one, Enum) and type(one).__hash__ is Enum.__hash__)


def _iterate(obj: Any) -> Iterable[Any]:
    return set.__iter__(obj) if isinstance(obj, set) else frozenset.__iter__(obj)


def _same(made: Iterable[Any], wanted: list[Any]) -> bool:
    return all(one is other for one, other in zip(made, wanted, strict=True))


def _candidates(obj: Any, wanted: list[Any]) -> Iterator[Order]:
    yield Order([], wanted, [])
    if (table := _table_of(obj)) is not None:
        yield _kept_and_replaced(table)


_FREE, _GIVEN_UP = object(), object()  # a place that nobody ever had, and one whose element was removed

Table = list[Any]  # for each place its element, or one of those


def _table_of(obj: Any) -> Table | None:
    """The set's own table, read from its memory and checked against what iteration shows."""
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    words = ctypes.cast(id(obj) + object.__basicsize__, ctypes.POINTER(ctypes.c_ssize_t))
    filled, used, mask, where = words[:4]
    if used != len(obj) or not used <= filled <= mask or mask & (mask + 1) or not 7 <= mask < 1 << 24:
        return None
    elements = {id(one): one for one in _iterate(obj)}
    slots = ctypes.cast(where, ctypes.POINTER(ctypes.c_ssize_t))[: 2 * (mask + 1)]
    keys = (slots[2 * slot] for slot in range(mask + 1))  # beside each stands its hash
    table = [elements.get(key, _GIVEN_UP) if key else _FREE for key in keys]
    found = [one for one in table if one is not _FREE and one is not _GIVEN_UP]
    return table if len(found) == used and _same(found, list(elements.values())) else None


def _kept_and_replaced(table: Table) -> Order:
    size = len(table)
    number = [slot + size * 7_777_777_777 for slot in range(size)]  # its place is that slot; nobody has it in a set
    taken = [slot for slot in range(size) if table[slot] is not _FREE]
    free = [slot for slot in range(size) if table[slot] is _FREE]
    # So many at once make a table of this size: more than half of it for twice as many.
    first = 0 if size == _LEAST else min(max(len(taken), size // 4, _MAKE_ROOM), size // 2 - 1)
    kept = taken + free[: max(0, first - len(taken))]
    instead = [(number[slot], table[slot]) for slot in taken if table[slot] is not _GIVEN_UP]
    removed = [number[slot] for slot in kept if table[slot] is _GIVEN_UP or table[slot] is _FREE]
    keepers = [number[slot] for slot in kept]
    return Order(keepers[:first], keepers[first:], removed, instead)
