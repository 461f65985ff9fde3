"""Blocking work beside the event loop, in threads that never keep a process from ending.

Those of anyio and concurrent.futures can: Python waits for them at its exit, and theirs end with the task that began
them, which a server that shuts down leaves unfinished, and so does a kernel that is restarted in a cell.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import TypeVar

from anyio import CapacityLimiter

T = TypeVar("T")


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

        threading.Thread(target=run, name="gpufit-aside", daemon=True).start()
        return await done
