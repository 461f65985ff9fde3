"""What stands behind a `yield from`: where Python would ask an iterator for its iterator a second time, and a generator
that was left while it computed."""

from __future__ import annotations

from typing import Any

from ...system.objects import module_of
from ...system.variables import values_of
from ..values import ARRIVED, FrameRecord

_PLAIN_MODULES = ("builtins", "itertools")  # whose iterators are their own, and do nothing when asked


def delegate_of(iterator: Any) -> Any:
    return iterator if module_of(type(iterator)) in _PLAIN_MODULES else Delegate(iterator)


class Delegate:
    """Passes everything on. Not parked yet, its first item is none: it only comes to wait where it had waited."""

    def __init__(self, iterator: Any, *, parked: bool = True) -> None:
        self.iterator, self.parked = iterator, parked

    def __iter__(self) -> Delegate:
        return self

    def __next__(self) -> Any:
        if not self.parked:
            self.parked = True
            return None
        return next(self.iterator)

    def __getattr__(self, name: str) -> Any:
        # send, throw and close where it has them: without, `yield from` does something else.
        if name in ("send", "throw", "close"):
            return getattr(self.iterator, name)
        raise AttributeError(name)


def on_the_way(generator: Any, records: list[FrameRecord]) -> Any:
    """One that was computing a value goes back to where it stood when it is asked for that."""
    arrived = values_of(generator.gi_frame)[ARRIVED]
    assert arrived.record is records[0]
    arrived.rest = records
    del records[0]
    return generator
