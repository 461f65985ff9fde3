"""The stop ladder: interrupt, ask, terminate, kill, each bounded, and only ever the very process that was meant."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import anyio

from ..errors import GpufitError, NotResumable, Unreachable
from ..jobs.client import ask
from ..jobs.events import StateChange
from ..jobs.job import Job
from ..jobs.journal import Journal
from ..jobs.paths import JobPaths
from ..jobs.record import Record, read_left, read_record, take_lock, write_record
from ..jobs.state import OVER
from ..jobs.watch import changes
from ..suspend.waking import dismiss
from ..system.files import for_its_owner

CANNOT_END = (
    "The system cannot end it at the moment, perhaps because of a disk or the driver."
    " If it stays so, ask an administrator."
)
STARTING = 30.0  # seconds that a worker may take to import torch on a busy machine


async def stop(job: Job, paths: JobPaths, patience: float) -> AsyncIterator[str]:
    """End the job, saying each rung as it is taken; the first rung lets the cell end as by Ctrl-C."""
    record = read_record(paths)
    if record.rests:
        yield await dismiss(job, record)
        return
    if _ended(record):
        yield f"{job.name} has ended already ({record.state})."
        return
    with _stopping(paths):
        if not record.socket:  # just started: without its record there is neither a socket nor a process to speak to
            await _wait_until(paths, lambda record: bool(record.socket) or _ended(record), STARTING)
        async for words in _climb(job, paths, patience):
            yield words


async def _climb(job: Job, paths: JobPaths, patience: float) -> AsyncIterator[str]:
    for rung, climb in (
        ("interrupted", lambda record: ask(job, record, "interrupt")),
        ("asked to end", lambda record: ask(job, record, "end")),
        ("terminated (SIGTERM)", lambda record: _signal(job, record, signal.SIGTERM)),
        ("killed (SIGKILL)", lambda record: _signal(job, record, signal.SIGKILL)),
    ):
        record = read_record(paths)
        try:
            await climb(record)
        except GpufitError as error:
            # Where it goes on, it sees that it is being stopped; its image is only being replaced.
            if await _wait_until(paths, _ended, STARTING if record.state == "moving" else 0.0):
                yield _end(job, paths, rung)
                return
            yield str(error)
            continue
        yield f"{job.name}: {rung}"
        if await _wait_until(paths, _ended, patience) or (
            read_record(paths).state == "moving" and await _wait_until(paths, _ended, STARTING)
        ):
            yield _end(job, paths, rung)
            return
    yield f"{job.name} is still there. {CANNOT_END}"


def is_being_stopped(paths: JobPaths) -> bool:
    """Whether somebody is at it just now: the lock tells, and ends with whoever holds it."""
    try:
        fd = os.open(paths.stopping, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(fd)


@contextmanager
def _stopping(paths: JobPaths) -> Iterator[None]:
    fd = -1
    try:
        with suppress(OSError):  # on a full disk, it is only heard by who listens
            fd = for_its_owner(str(paths.stopping), os.O_RDWR | os.O_CREAT)
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        if fd >= 0:
            os.close(fd)


def _end(job: Job, paths: JobPaths, rung: str) -> str:
    """How it ended; one that had to be killed said no word, and is not lost: it was stopped."""
    if not paths.root.exists():
        return f"{job.name}: ended, and its files are cleaned away"
    record = read_record(paths)
    if record.state == "lost":
        with suppress(NotResumable, OSError):  # somebody goes on with it; or the disk is full
            record = _write_end(job, paths, rung)
    return f"{job.name}: ended" if record.state == "stopped" else f"{job.name}: ended ({record.state})"


def _write_end(job: Job, paths: JobPaths, rung: str) -> Record:
    """The last word in its worker's stead."""
    lock = take_lock(paths, job.name)
    try:
        record = read_left(paths)
        if record.state == "lost":
            record = replace(record, state="stopped", reason=f"it was {rung}")
            write_record(paths, record)
            journal = Journal(paths.journal, 0)
            journal.append_final(StateChange("stopped", record.reason, epoch=record.epoch))
            journal.close()
        return record
    finally:
        os.close(lock)


async def _signal(job: Job, record: Record, number: signal.Signals) -> None:
    if record.worker is None:
        raise Unreachable(job.name, "its worker has not said yet which process it is, so none was signalled")
    record.worker.signal(number)


async def _wait_until(paths: JobPaths, reached: Callable[[Record], bool], patience: float) -> bool:
    with anyio.move_on_after(patience):
        async with changes(paths) as looks:
            async for record in looks:
                if reached(record):
                    return True
    return reached(read_record(paths))


def _ended(record: Record) -> bool:
    return record.state in OVER
