"""The order of sets, which a loop over one follows and which pickle does not keep.

With the same PYTHONHASHSEED it follows from the elements' hashes, their order of insertion, and those removed since. So
the set's own table is read, an order of insertion is computed that gives it, and tried here and now: what gives the
order in this process gives it in the next one.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, time, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

_PROBES, _SHIFT = 9, 5  # of CPython's Objects/setobject.c
_BY_VALUE = (str, bytes, int, float, complex, PurePath, date, time, timedelta)


@dataclass(frozen=True)
class Order:
    """How a set is filled so that it has its order again."""

    at_once: list[Any]  # put in through a dict, for whose length the set makes room before it takes the first
    one_by_one: list[Any]
    removed: list[int]  # of these: they only keep a place

    def fill(self, obj: set[Any]) -> None:
        set.clear(obj)
        set.update(obj, dict.fromkeys(self.at_once))
        set.update(obj, self.one_by_one)
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
        yield _as_inserted(table)


@dataclass(frozen=True)
class _Entry:
    element: Any
    hash: int


class _PlaceKeeper(int):
    """Stands where the set had an element that was removed: such a place is not free until the table grows."""


Table = list[_Entry | None]


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
    table: Table = [None] * (mask + 1)
    for slot in range(mask + 1):
        key, number = slots[2 * slot], slots[2 * slot + 1]
        if key in elements:
            table[slot] = _Entry(elements[key], number)
        elif key:
            table[slot] = _place_keeper(slot, mask)
    found = [entry.element for entry in table if entry is not None and not isinstance(entry.element, _PlaceKeeper)]
    return table if len(found) == used and _same(found, list(elements.values())) else None


def _place_keeper(slot: int, mask: int) -> _Entry:
    number = slot + (mask + 1) * 7_777_777_777  # whose place is this slot, and which nobody has in a set
    return _Entry(_PlaceKeeper(number), number)


def _as_inserted(table: Table) -> Order:
    """An order in which every element finds its slot: after those that are in its way."""
    entries = _in_order(table)
    size = len(table)
    if size == 8:
        first = 0
    else:
        first = min(len(entries), size // 2 - 1)
        free = (slot for slot, entry in enumerate(table) if entry is None)
        while first < size // 4:  # a free slot is in nobody's way, or it would not be free
            entries.insert(first, _place_keeper(next(free), size - 1).element)
            first += 1
    removed = [int(one) for one in entries if type(one) is _PlaceKeeper]
    plain = [int(one) if type(one) is _PlaceKeeper else one for one in entries]
    return Order(plain[:first], plain[first:], removed)


def _in_order(table: Table) -> list[Any]:
    done: set[int] = set()
    order: list[Any] = []
    for start, entry in enumerate(table):
        todo = [start] if entry is not None and start not in done else []
        while todo:
            slot = todo[-1]
            before = next((other for other in _in_the_way(table, slot) if other not in done), None)
            if before is not None and len(todo) <= len(table):
                todo.append(before)
                continue
            todo.pop()
            if slot not in done:
                done.add(slot)
                order.append(_at(table, slot).element)
    return order


def _at(table: Table, slot: int) -> _Entry:
    entry = table[slot]
    assert entry is not None
    return entry


def _in_the_way(table: Table, slot: int) -> Iterator[int]:
    """The slots that are looked at before this one is found free."""
    mask = len(table) - 1
    perturb = _at(table, slot).hash & (2 * sys.maxsize + 1)
    at = perturb & mask
    for _ in range(len(table)):
        for probe in range(at, at + (_PROBES if at + _PROBES <= mask else 0) + 1):
            if probe == slot:
                return
            if table[probe] is not None:
                yield probe
        perturb >>= _SHIFT
        at = (at * 5 + 1 + perturb) & mask
