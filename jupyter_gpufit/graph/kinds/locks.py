"""Locks between threads: one that nobody holds is made anew, and with it the events and queues that are built on locks.

Whoever waits for an event or a queue waits by a lock that it holds, so that those are known by their locks, too.
"""

from __future__ import annotations

import threading
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import LOCKS, is_held, why_not


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_lock) if cls in LOCKS else None


def reduce_lock(lock: Any, pickler: Pickler) -> Reduced:
    if is_held(lock):
        return pickler.refuse(lock, why_not(type(lock)) or "")
    return make_lock, (LOCKS.index(type(lock)),)


def make_lock(which: int) -> Any:
    return (threading.Lock, threading.RLock)[which]()
