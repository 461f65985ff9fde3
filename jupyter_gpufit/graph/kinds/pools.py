"""Pools of threads that have nothing to do: another process makes them anew, and their threads when there is work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...errors import NotHere
from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE, is_idle


def reduce_pool(pool: Any, pickler: Pickler) -> Reduced:
    if not is_idle(pool):
        if pickler.is_snapshot:
            raise NotHere("a ThreadPoolExecutor is at work.")
        return pickler.refuse(pool, f"a ThreadPoolExecutor that is at work. Wait for it before. Or: {INSIDE.lower()}.")
    given = pool._max_workers, pool._thread_name_prefix
    # Python 3.14 keeps what makes a worker's context, and no initializer of its own.
    begins = (getattr(pool, "_initializer", None), getattr(pool, "_initargs", ()))
    return made_anew, (*given, *begins, pool._shutdown)


def made_anew(most: int, prefix: str, initializer: Any, arguments: tuple[Any, ...], ended: bool) -> ThreadPoolExecutor:
    pool = ThreadPoolExecutor(most, prefix, initializer, arguments)
    end(pool, ended)
    return pool


def has_ended(pool: Any) -> bool:
    return bool(pool._shutdown)


def end(pool: ThreadPoolExecutor, ended: bool) -> None:
    if ended:
        pool.shutdown(wait=False)


_POOL = Kind(reduce=reduce_pool, state=has_ended, fill=end)


def find(cls: type) -> Kind | None:
    return _POOL if cls is ThreadPoolExecutor else None
