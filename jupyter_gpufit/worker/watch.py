"""Waiting for a job to go on, without polling: a change of its files, or the end of its worker."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from inotify_simple import INotify, flags

from ..job import JobPaths
from .record import Record, read_record

WATCHED = flags.MODIFY | flags.CREATE | flags.MOVED_TO
LOOK_ANYWAY = 5.0  # seconds; a file system without inotify events (a network home) is read at this pace
SOON = 0.02  # seconds; doubled at each look that finds no process


@asynccontextmanager
async def changes(paths: JobPaths) -> AsyncIterator[AsyncIterator[Record]]:
    """The job's record now, and again whenever something of it has changed.

    Read the journal after receiving a record: a worker that the record calls lost has written all it ever will.
    """
    inotify = INotify(nonblocking=True)
    inotify.add_watch(str(paths.root), WATCHED)
    try:
        yield _looks(paths, inotify)
    finally:
        inotify.close()


async def _looks(paths: JobPaths, inotify: INotify) -> AsyncIterator[Record]:
    soon = SOON
    while True:
        inotify.read(timeout=0)  # before the look: what changes after it wakes the wait below
        record = read_record(paths)
        yield record
        worker = record.worker.open() if record.worker else None
        # Without a process to wait for: it ended while we looked, or before it said a word. No file will change.
        pause = LOOK_ANYWAY if worker is not None else soon
        soon = SOON if worker is not None else min(2 * soon, LOOK_ANYWAY)
        try:
            with anyio.move_on_after(pause):
                await _either_readable(inotify.fileno(), worker)
        finally:
            if worker is not None:
                os.close(worker)


async def _either_readable(first: int, second: int | None) -> None:
    async with anyio.create_task_group() as group:

        async def wait(fd: int) -> None:
            await anyio.wait_readable(fd)
            group.cancel_scope.cancel()

        group.start_soon(wait, first)
        if second is not None:
            group.start_soon(wait, second)
