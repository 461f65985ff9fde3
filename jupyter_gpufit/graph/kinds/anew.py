"""Small objects of Python's own for which pickle knows no way: made again by what they say of themselves."""

from __future__ import annotations

import random
import struct
import threading
from typing import Any

from ..kind import Kind, Pickler, Reduced


def find(cls: type) -> Kind | None:
    return _KINDS.get(cls)


def reduce_struct(packs: Any, pickler: Pickler) -> Reduced:
    return struct.Struct, (packs.format,)


def reduce_system_random(generator: Any, pickler: Pickler) -> Reduced:
    return random.SystemRandom, ()  # the system's numbers, whose place nobody knows


def reduce_local(local: Any, pickler: Pickler) -> Reduced:
    return threading.local, (), local_state(local), None, None, fill_local


def local_state(local: Any) -> dict[str, Any]:
    """Of the thread that cells run in."""
    return dict(vars(local))


def fill_local(local: Any, state: dict[str, Any]) -> None:
    vars(local).clear()
    vars(local).update(state)


_KINDS: dict[type, Kind] = {
    struct.Struct: Kind(reduce=reduce_struct),
    random.SystemRandom: Kind(reduce=reduce_system_random),
    threading.local: Kind(reduce=reduce_local, state=local_state, fill=fill_local),
}
