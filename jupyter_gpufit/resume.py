"""Going on with a job from its newest checkpoint: after a release, a kill, a reboot, an error or a stop.

A new worker takes the job's lock, and with it the next epoch; then the job estimates, queues and runs as any other. It
runs the text and the environment that it was started with, whatever has become of the notebook's cell since.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import anyio

from .devices import read_devices_async
from .errors import NoJobMeant, NotResumable
from .job import Job, JobPaths, all_jobs, find_job
from .place import refuse_impossible
from .settings import Settings
from .train import request_for
from .units import format_duration
from .worker.follow import LEFT
from .worker.handover import Handover, noted_start
from .worker.journal import Reader, last_seq
from .worker.messages import Failure, StateChange
from .worker.parent import Waiting, environment_of
from .worker.record import LastCheckpoint, Record, read_record
from .worker.watch import changes

STARTING = 90.0  # seconds that a worker may take to import torch on a busy machine
LEAVING = 30.0  # seconds that a worker which has ended its job may take to end itself
IN_THE_QUEUE = 2.0  # seconds in the queue after which nobody is kept waiting for the job to start


@dataclass(frozen=True)
class Resumption:
    """A job that can be gone on with, and what its worker needs."""

    job: Job
    paths: JobPaths
    start: Handover
    checkpoint: LastCheckpoint
    gpu: str  # another device than it was started for; empty: as then
    seq: int  # the journal's last entry: what follows is the resumed job's

    @property
    def env(self) -> dict[str, str]:
        return environment_of(self.start)

    def words(self, now: float) -> str:
        ago = format_duration(max(0.0, now - self.checkpoint.time))
        return (
            f"{self.job.name} goes on from step {self.checkpoint.step:,}, saved {ago} ago, with the text it was started"
            " with (edits to its cell since then are for the next run)."
        )


def why_not(record: Record) -> str:
    """Why a job with this record cannot be resumed; empty: it can, if its checkpoint is whole."""
    if record.state == "done":
        return "it has ended well."
    if record.state not in (*LEFT, "lost"):
        return f"it is {record.state}."
    return "" if record.checkpoint is not None else f"it is {record.state}, and left no checkpoint."


def _instead(name: str, record: Record) -> str:
    """What to do with a job that cannot be resumed."""
    if record.state == "done":
        return f"Its output and variables: %gpufit attach {name}"
    if record.state not in (*LEFT, "lost"):
        return f"To follow it: %gpufit attach {name}"
    return "Run its cell again."


async def prepare(settings: Settings, wanted: str, gpu: str = "") -> Resumption:
    """Find the job that is meant, by default the newest that can be resumed; refuse what could never run."""
    job, paths = _chosen(settings, wanted)
    record = read_record(paths)
    if why := why_not(record):
        raise NotResumable(job.name, f"{why} {_instead(job.name, record)}")
    assert record.checkpoint is not None
    await _gone(record)
    try:
        start = noted_start(paths)
    except (FileNotFoundError, ValueError, TypeError) as error:
        raise NotResumable(job.name, f"how it was started cannot be read ({paths.start}).") from error
    request = request_for(job, start.needed or job.options.memory)
    refuse_impossible(replace(request, gpu=gpu or request.gpu), await read_devices_async(settings))
    return Resumption(job, paths, start, record.checkpoint, gpu, last_seq(paths.journal))


async def _gone(record: Record) -> None:
    """Wait for a worker that has said its last word, and holds the job's lock until its process has ended."""
    fd = record.worker.open() if record.worker is not None else None
    if fd is None:
        return
    try:
        with anyio.move_on_after(LEAVING):
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)


def _chosen(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    if wanted:
        return find_job(settings, wanted)
    for job, paths in reversed(all_jobs(settings)):
        if read_record(paths).resumable:
            return job, paths
    raise NoJobMeant("can be resumed")


async def resume(settings: Settings, wanted: str, gpu: str = "") -> AsyncIterator[str]:
    """Have the job go on by itself, saying so, until it runs or waits in the queue."""
    found = await prepare(settings, wanted, gpu)
    waiting = Waiting.spawn(found.env, found.start.python)
    try:
        started = waiting.give_again(found.job, found.paths, gpu)
    except BaseException:
        waiting.dismiss()
        raise
    threading.Thread(target=started.reap, name=f"gpufit-reap-{found.job.name}", daemon=True).start()
    yield found.words(time.time())
    yield await _how_it_goes(found)


async def _how_it_goes(found: Resumption) -> str:
    name, reader = found.job.name, Reader(found.paths.journal, found.seq)
    queued = ""
    try:
        with anyio.CancelScope(deadline=anyio.current_time() + STARTING) as scope:
            async with changes(found.paths) as looks:
                async for record in looks:
                    for entry in reader.read():
                        match entry.event:
                            case StateChange("queued", reason):
                                queued = reason
                                scope.deadline = anyio.current_time() + IN_THE_QUEUE
                            case StateChange("starting"):
                                scope.deadline = anyio.current_time() + STARTING
                            case StateChange("running", _, device):
                                return f"{name} runs on {device}. To follow it: gpufit attach {name}"
                            case Failure(_, why):
                                raise NotResumable(name, why)
                            case StateChange(state, reason) if state in LEFT:
                                return f"{name} is {state}: {reason}"
                    if record.state == "lost":
                        raise NotResumable(name, f"its worker died at once; see {found.paths.log}.")
    finally:
        reader.close()
    return f"{name} waits: {queued or 'its worker is starting'}. To follow it: gpufit attach {name}"
