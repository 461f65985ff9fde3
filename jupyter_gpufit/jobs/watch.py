"""Waiting for a job to go on, without polling: a change of its files, or the end of its worker."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from inotify_simple import INotify, flags

from .paths import JobPaths
from .record import Record, read_record

WATCHED = flags.MODIFY | flags.CREATE | flags.MOVED_TO
POLL = 1.0  # seconds between two looks where no watch can be had
LOOK_ANYWAY = 5.0  # seconds; a file system without inotify events (a network home) is read at this pace
SOON = 0.02  # seconds; doubled at each look that finds no process

_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC)


@asynccontextmanager
async def changes(paths: JobPaths) -> AsyncIterator[AsyncIterator[Record]]:
    """The job's record now, and again whenever something of it has changed.

    Read the journal after receiving a record: a worker that the record calls lost has written all it ever will.
    """
    inotify = _watching(paths)
    try:
        yield _looks(paths, inotify)
    finally:
        if inotify is not None:
            inotify.close()


def _watching(paths: JobPaths) -> INotify | None:
    """Have the kernel tell of changes; None where the user's watches are used up, or the files are cleaned away."""
    try:
        inotify = INotify(nonblocking=True)
    except OSError as error:
        if error.errno not in _USED_UP:
            raise
        return None
    try:
        inotify.add_watch(str(paths.root), WATCHED)
    except OSError as error:
        inotify.close()
        if error.errno not in (*_USED_UP, errno.ENOENT):
            raise
        return None
    return inotify


async def _looks(paths: JobPaths, inotify: INotify | None) -> AsyncIterator[Record]:
    soon, longest = SOON, LOOK_ANYWAY if inotify is not None else POLL
    while True:
        if inotify is not None:
            inotify.read(timeout=0)  # before the look: what changes after it wakes the wait below
        record = read_record(paths)
        yield record
        worker = record.worker.open() if record.worker else None
        # Without a process to wait for: it ended while we looked, or before it said a word. No file will change.
        pause = longest if worker is not None else soon
        soon = SOON if worker is not None else min(2 * soon, longest)
        try:
            with anyio.move_on_after(pause):
                await _one_readable(None if inotify is None else inotify.fileno(), worker)
        finally:
            if worker is not None:
                os.close(worker)


async def _one_readable(*fds: int | None) -> None:
    """Wait for one of those that there are; for ever, where there is none."""
    async with anyio.create_task_group() as group:

        async def wait(fd: int) -> None:
            await anyio.wait_readable(fd)
            group.cancel_scope.cancel()

        for fd in fds:
            if fd is not None:
                group.start_soon(wait, fd)
        await anyio.sleep_forever()
