"""Threads that a cell started and left: they may still compute what the notebook expects."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress

import psutil

from ..graph.refusals import waits_in_a_pool

PATIENCE = 5.0  # seconds in which all of them wait, and nobody computes who could wake them
LITTLE = 0.05  # of a processor: what our other threads take
LOOKS = 0.5  # seconds between two looks, each of which goes through all processes of the machine


def wait_for_threads(before: Collection[threading.Thread], note: Callable[[str], None]) -> None:
    """Until those that came since `before` have ended, rest in their pool, or wait for somebody who will never come."""
    started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    if not (busy := _busy(started)):
        return
    note(f"Waiting for {len(busy)} threads that the cell started; interrupt to go on.")
    stillness = _Stillness()
    while busy := _busy(busy):
        busy[0].join(LOOKS)
        if stillness.lasts(busy) > PATIENCE:
            names = ", ".join(repr(thread.name) for thread in busy)
            note(f"The cell ends without its threads {names}: they wait, and nothing is left that could wake them.")
            return


def _busy(threads: Collection[threading.Thread]) -> list[threading.Thread]:
    return [thread for thread in threads if thread.is_alive() and not waits_in_a_pool(thread)]


class _Stillness:
    """Since when nothing has happened."""

    def __init__(self) -> None:
        self._since, self._taken = time.monotonic(), _processor_time()

    def lasts(self, threads: Collection[threading.Thread]) -> float:
        """Seconds."""
        lasted = time.monotonic() - self._since
        if not all(map(_waits_for_others, threads)) or _processor_time() - self._taken > LITTLE * (1 + lasted):
            self._since, self._taken = time.monotonic(), _processor_time()
        return time.monotonic() - self._since


def _processor_time() -> float:
    """Seconds, of this process and its children: a pool's process that computes will wake the thread of its pool.

    But for this thread, which only looks: on a machine with many processes a look takes a while.
    """
    taken = time.process_time() - time.thread_time()
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            times = child.cpu_times()
            taken += times.user + times.system
    return taken


def _waits_for_others(thread: threading.Thread) -> bool:
    """Whether only another thread can wake it: it waits for a lock, a queue or an event, for however long it takes."""
    frame = sys._current_frames().get(thread.ident or 0)
    if frame is None or frame.f_code not in _WAITS:
        return frame is None
    return frame.f_locals.get("timeout") in (None, -1)


_JOIN = getattr(threading.Thread, "_wait_for_tstate_lock", threading.Thread.join)  # before Python 3.13
_WAITS = {threading.Condition.wait.__code__, _JOIN.__code__}
