"""Numbers that are the id() of an object which travels with them: over there they become the id() that it has there.

A GradScaler knows its optimizers by their id(), and a cell the parameters that it keeps from weight decay. Found are
they where a stream is written: a number which is where an object of the stream lives means that object. Then it is
written once more, with the object in the number's place, whatever holds the number: a set, a key, a closure.

Not covered: an id() inside a text or an array, and numbers below 2**32.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Memo = Mapping[int, tuple[int, Any]]  # a pickler's: its objects by their id()
# In a pickle, an int of five or six bytes; each byte may begin one, for a float's may look like one.
_LONG = re.compile(rb"(?=\x8a(?:\x05(.{5})|\x06(.{6})))", re.DOTALL)


def stored_ids(stream: bytes, memo: Callable[[], Memo]) -> dict[int, Any]:
    """The objects whose id() is written as a number in the stream, by that number."""
    found = {int.from_bytes(match[1] or match[2], "little", signed=True) for match in _LONG.finditer(stream)}
    numbers = [number for number in found if number >> 32]
    known = memo() if numbers else {}
    return {number: known[number][1] for number in numbers if number in known}


def in_place_of(ids: Mapping[int, Any]) -> Callable[[Any], tuple[Any] | None]:
    """A pickler's persistent_id(): it is asked about every object before anything else is done with it."""

    def instead(obj: Any) -> tuple[Any] | None:
        return (ids[obj],) if type(obj) is int and obj in ids else None

    return instead


def id_of(pid: tuple[Any]) -> int:
    """What the reader makes of it."""
    return id(pid[0])
