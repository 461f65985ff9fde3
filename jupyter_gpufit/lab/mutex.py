"""The lab's mutex: held for a moment around look, decide and publish, and never while a driver is asked.

Anybody can hold it, since everybody must be able to. So it is asked for without waiting, up to a deadline, and whoever
has it then is named. It only makes things simple: claims do not collide without it either (see queue).
"""

from __future__ import annotations

import fcntl
import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ..errors import LabBusy
from ..system.users import user_name
from .directory import MUTEX
from .locks import flock_holders
from .owner import started, uid_of
from .processes import processes_with

PATIENCE = 1.0  # seconds
_COARSE = 5  # CLOCK_REALTIME_COARSE, by which the kernel dates files
MOST_TICKS = 100  # of 2 ms: a clock that was set back moves late


@asynccontextmanager
async def lab_mutex(lab: Path, *, patience: float = PATIENCE, name_holder: bool = True) -> AsyncIterator[None]:
    """Keep everybody else from claiming. Do not await inside: the others wait."""
    fd = await _take(lab / MUTEX, patience, name_holder)
    try:
        yield
    finally:
        os.close(fd)


async def _take(path: Path, patience: float, name_holder: bool) -> int:
    fd, deadline = None, anyio.current_time() + patience
    while fd is None:
        fd = _try(path)
        if fd is None:
            if anyio.current_time() > deadline:
                raise LabBusy(str(path), patience, _holder(path) if name_holder else "")
            # Uneven steps: a crowd that woke together must not go on meeting.
            await anyio.sleep(random.uniform(0.0002, 0.005))
    return fd


def _try(path: Path) -> int | None:
    # Read-only, so that closing it wakes nobody, and never created: see fs.protected_regular.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), os.stat(path)):
            return fd
    except BlockingIOError:
        pass
    except BaseException:
        os.close(fd)
        raise
    os.close(fd)  # taken; or the lab was made anew meanwhile, and ours is the lock of the old one
    return None


def _holder(path: Path) -> str:
    """Who has it, by the kernel's list; where that names a dead process, the child that has it, if we may look."""
    found = os.stat(path)
    named = flock_holders().get((found.st_dev, found.st_ino), [])
    for pid in named:
        if started(pid) is not None and (uid := uid_of(pid)) is not None:
            return f"{user_name(uid)}'s process {pid}"
    for process in processes_with(path) if named else []:
        if (uid := uid_of(process.pid)) is not None:
            return f"{user_name(uid)}'s process {process.pid}"
    return f"process {named[0]}, or a child of it if that has ended," if named else ""


async def clock_moved(since: int) -> None:
    """Wait until a file that is made now gets a later time than this one, which is a few milliseconds."""
    for _ in range(MOST_TICKS):
        if time.clock_gettime_ns(_COARSE) > since:
            return
        await anyio.sleep(0.002)
