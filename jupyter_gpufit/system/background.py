"""Blocking work beside the event loop, in threads that never keep a process from ending.

Those of anyio and concurrent.futures can: Python waits for them at its exit, and theirs end with the task that began
them, which a server that shuts down leaves unfinished, and so does a kernel that is restarted in a cell.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from anyio import CapacityLimiter

T = TypeVar("T")

KEPT = 2.0  # seconds for which a thread waits for more: to begin one takes as long as many a look at a file
_Work = Callable[[], None]
_idle: list[tuple[int, SimpleQueue[_Work]]] = []  # by process: a fork has none of these threads


async def aside(work: Callable[[], T], limiter: CapacityLimiter | None = None) -> T:
    """Do it in a thread, beside no more others than the limiter allows; whoever is cancelled does not wait for it."""
    async with limiter or nullcontext():
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if done.cancelled():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, error)

        _begin(run)
        return await done


def _begin(run: _Work) -> None:
    """In the thread that became idle last, or in a new one."""
    while _idle:
        with suppress(IndexError):  # another thread was faster
            process, queue = _idle.pop()
            if process == os.getpid():
                queue.put(run)
                return
    threading.Thread(target=_serve, args=(run,), name="gpufit-aside", daemon=True).start()


def _serve(run: _Work) -> None:
    queue: SimpleQueue[_Work] = SimpleQueue()
    me = os.getpid(), queue
    while True:
        run()
        del run  # what it holds is not kept by a thread that waits
        _idle.append(me)
        try:
            run = queue.get(timeout=KEPT)
        except Empty:
            try:
                _idle.remove(me)
            except ValueError:  # somebody has taken it just now
                run = queue.get()
            else:
                return
