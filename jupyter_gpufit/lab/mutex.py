"""The lab's mutex: held for a moment around look, decide and publish, and never while a driver is asked.

Anybody can hold it, since everybody must be able to. So it is asked for without waiting, up to a deadline, and whoever
has it then is named.
"""

from __future__ import annotations

import fcntl
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from ..errors import LabBusy
from ..system.users import user_name
from .directory import MUTEX
from .owner import flock_holders, uid_of

PATIENCE = 2.0  # seconds


@asynccontextmanager
async def lab_mutex(lab: Path, *, patience: float = PATIENCE) -> AsyncIterator[None]:
    """Keep everybody else from claiming. Do not await inside: the others wait."""
    fd = await _take(lab / MUTEX, anyio.current_time() + patience, patience)
    try:
        yield
    finally:
        os.close(fd)


async def _take(path: Path, deadline: float, patience: float) -> int:
    fd = None
    while fd is None:
        fd = _try(path)
        if fd is None:
            if anyio.current_time() > deadline:
                raise LabBusy(str(path), patience, _holder(path))
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
    found = os.stat(path)
    for pid in flock_holders().get((found.st_dev, found.st_ino), []):
        uid = uid_of(pid)
        return f"process {pid}" if uid is None else f"{user_name(uid)}'s process {pid}"
    return ""
