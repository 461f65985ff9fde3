"""Pools of threads that have nothing to do: another process makes them anew, and their threads when there is work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from ...errors import NotHere
from ...graph.kind import Kind, Reduced
from ..hazards import waits_in_a_pool

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_pool) if cls is ThreadPoolExecutor else None


def reduce_pool(pool: Any, pickler: SnapshotPickler) -> Reduced:
    if not pool._work_queue.empty() or not all(map(_waits, pool._threads)):
        raise NotHere("a ThreadPoolExecutor is at work.")
    given = pool._max_workers, pool._thread_name_prefix
    # Python 3.14 keeps what makes a worker's context, and no initializer of its own.
    begins = (getattr(pool, "_initializer", None), getattr(pool, "_initargs", ()))
    return made_anew, (*given, *begins, pool._shutdown)


def _waits(thread: threading.Thread) -> bool:
    return not thread.is_alive() or waits_in_a_pool(thread)


def made_anew(most: int, prefix: str, initializer: Any, arguments: tuple[Any, ...], ended: bool) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(most, prefix, initializer, arguments)
    if ended:
        pool.shutdown(wait=False)
    return pool
