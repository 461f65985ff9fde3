"""The stop ladder: interrupt, ask, terminate, kill, each bounded, and only ever the very process that was meant."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable

import anyio

from ..errors import GpufitError, Unreachable
from ..jobs.client import ask
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import Record, read_record
from ..jobs.state import OVER
from ..jobs.watch import changes
from ..suspend.waking import dismiss

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
    if not record.socket:  # just started: without its record there is neither a socket nor a process to speak to
        await _wait_until(paths, lambda record: bool(record.socket) or _ended(record), STARTING)
    for rung, climb in (
        ("interrupted", lambda record: ask(job, record, "interrupt")),
        ("asked to end", lambda record: ask(job, record, "end")),
        ("terminated (SIGTERM)", lambda record: _signal(job, record, signal.SIGTERM)),
        ("killed (SIGKILL)", lambda record: _signal(job, record, signal.SIGKILL)),
    ):
        try:
            await climb(read_record(paths))
        except GpufitError as error:
            if _ended(read_record(paths)):
                yield f"{job.name}: ended"
                return
            yield str(error)
            continue
        yield f"{job.name}: {rung}"
        if await _wait_until(paths, _ended, patience):
            yield f"{job.name}: ended"
            return
    yield f"{job.name} is still there: it may be in an uninterruptible system call. Ask your administrator."


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
    return False


def _ended(record: Record) -> bool:
    return record.state in OVER
