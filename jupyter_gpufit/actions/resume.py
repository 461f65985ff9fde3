"""Going on with a job from its newest checkpoint, or from an earlier one: after a release, a kill, an error or a stop.

A new worker takes the job's lock, and with it the next epoch; then the job queues and runs as any other, for as much
as its runs so far tell that it needs. It runs the text and the environment that it was started with, whatever has
become of the notebook's cell since.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from ..devices.device import Device
from ..devices.here import read_devices_async
from ..engine import Started, WaitingWorker, environment_of
from ..errors import BadOption, NoJobMeant, NotResumable
from ..estimate.need import Needed
from ..estimate.reckoning.for_resume import SoFar, needed_again, within
from ..fit.memory import NAME as RAN_OUT
from ..jobs.epoch import next_epoch
from ..jobs.events import Failure, StateChange, step_words
from ..jobs.handover import Handover, noted_start
from ..jobs.job import Job
from ..jobs.journal import JournalReader, last_seq
from ..jobs.paths import JobPaths
from ..jobs.record import LastCheckpoint, Record, read_record
from ..jobs.state import LEFT, OVER, in_words
from ..jobs.store import all_jobs, find_job
from ..jobs.watch import changes
from ..lab.place import candidates, refuse_impossible
from ..settings import Settings
from ..suspend import waking
from ..suspend.waking import Woken
from ..units import format_duration, where_words
from .request import request_for

if TYPE_CHECKING:  # kernels that resume nothing start faster without
    from ..checkpoint.files import Checkpoint
    from ..estimate.asking.fit import Fit

STARTING = 90.0  # seconds that a worker may take to import torch on a busy machine
LEAVING = 30.0  # seconds that a worker which has ended its job may take to end itself
IN_THE_QUEUE = 2.0  # seconds in the queue after which nobody is kept waiting for the job to start


@dataclass(frozen=True)
class Resumption:
    """A job that can be gone on with, and what its worker needs."""

    job: Job
    paths: JobPaths
    start: Handover  # as it was first, and where and with how much it goes on
    checkpoint: LastCheckpoint
    seq: int  # the journal's last entry: what follows is the resumed job's
    resting: Record | None = None  # its worker is suspended, and said this
    back: str = ""  # the name of an earlier checkpoint than the newest
    repeats: int = 0  # steps that it takes once more, as far as is known

    @property
    def env(self) -> dict[str, str]:
        return environment_of(self.start)

    def words(self, now: float) -> str:
        ago = format_duration(max(0.0, now - self.checkpoint.time))
        again = f" {self.repeats:,} steps since then are trained again." if self.back and self.repeats else ""
        return (
            f"{self.job.name} goes on from {self.checkpoint.words}, saved {ago} ago.{again} It runs the text"
            f" that it was started with; edits since then are for the next run. It {self.start.why}."
        )

    def give_to(self, waiting: WaitingWorker) -> Started:
        """Have the worker go on with it."""
        back = partial(_put_first, self.paths, self.back) if self.back else None
        return waiting.give_again(self.job, self.paths, self.start, back)


def _put_first(paths: JobPaths, name: str) -> LastCheckpoint:
    """Make an earlier checkpoint the newest; only the holder of the job's lock may call it."""
    from ..checkpoint.publish import publish_again

    return _noted(publish_again(paths.checkpoints, name, next_epoch(paths)))


def _noted(checkpoint: Checkpoint) -> LastCheckpoint:
    about = checkpoint.about
    return LastCheckpoint(about.step, about.time, checkpoint.nbytes, about.exact)


def _instead(name: str, record: Record) -> str:
    """What to do with a job that cannot be resumed."""
    if record.state == "done":
        return f"Its output, and its variables if no notebook has them: %gpufit attach {name}"
    if record.state not in OVER:
        return f"To follow it: %gpufit attach {name}"
    return "Run its cell again."


async def prepare(
    settings: Settings,
    wanted: str,
    gpu: str = "",
    memory: int | None = None,
    gpus: tuple[int, int] | None = None,
    back: str = "",
) -> Resumption:
    """Find the job that is meant, by default the newest that can be resumed; refuse what could never run.

    `back`: an earlier checkpoint, by its step or its name.
    """
    job, paths = chosen(settings, wanted)
    record = read_record(paths)
    if why := record.why_not("resume"):
        raise NotResumable(job.name, f"{why} {_instead(job.name, record)}")
    assert record.checkpoint is not None
    earlier = await anyio.to_thread.run_sync(_earlier, job, paths, back) if back else None
    if earlier is not None and record.rests:
        why = "its process rests with all that it held, and goes on from there. Stop it first"
        raise NotResumable(job.name, f"{why}: gpufit stop {job.name}")
    # lost: nobody holds the lock, also where its process was only stopped or cut off; suspended: it is to stay.
    if record.state != "lost" and not record.rests:
        await gone(record)
    try:
        start = noted_start(paths)
    except (FileNotFoundError, ValueError, TypeError) as error:
        why = f"how it was started cannot be read ({paths.start}). Run its cell again."
        raise NotResumable(job.name, why) from error
    devices = await read_devices_async(settings)
    request = replace(request_for(job, memory, gpus), gpu=gpu or job.options.gpu)
    if request.most > 1 and start.fit is not None and start.fit["plan"]["parts"]:
        raise BadOption(f"{job.name} was made to fit on one device, and goes on so: resume it with --gpus 1.")
    so_far = await anyio.to_thread.run_sync(_so_far, job, paths, record, start)
    if start.fit is not None and request.count < start.fit.get("devices", 1):
        so_far = replace(so_far, had_more=True)
    allowed = candidates(request, devices)
    needed = needed_again(memory, job.options, so_far, allowed)
    if memory is None and not so_far.outgrew and not record.rests and request.most == 1:
        if (fit := _another_fit(start, allowed, needed)) is not None:
            start, needed = replace(start, fit=fit.to_record()), within(fit.changed, allowed)
    refuse_impossible(replace(request, needed=needed.memory), devices)
    start = replace(start, gpu=gpu, gpus=gpus, needed=needed.memory, why=needed.reason)
    start = replace(start, outgrew=so_far.outgrew, asked=memory)
    seq = last_seq(paths.journal)
    if earlier is not None:
        again = max(0, record.step - earlier.about.step)
        return Resumption(job, paths, start, _noted(earlier), seq, None, earlier.path.name, again)
    return Resumption(job, paths, start, record.checkpoint, seq, record if record.rests else None)


def _earlier(job: Job, paths: JobPaths, wanted: str) -> Checkpoint | None:
    """The checkpoint that is meant, if it is not the newest."""
    from ..checkpoint.files import listed

    good, _ = listed(paths.checkpoints)
    meant = [one for one in good if wanted == one.path.name or wanted.replace(",", "") == str(one.about.step)]
    if not meant:
        there = ", ".join(step_words(one.about.step, one.about.exact) for one in good) or "none that is whole"
        raise NotResumable(job.name, f"it has no checkpoint of step {wanted}. There are: {there}.")
    return None if meant[0] is good[0] else meant[0]


def _so_far(job: Job, paths: JobPaths, record: Record, start: Handover) -> SoFar:
    """What its runs until now tell of what it will need."""
    from ..checkpoint.files import newest_listed

    assert record.checkpoint is not None
    claimed = start.needed if start.needed is not None or start.why else job.options.memory
    newest, live = newest_listed(paths.checkpoints), record.live.memory
    peak = max(newest.about.peak if newest is not None else 0, live.peak if live is not None else 0)
    ran_out = record.state == "failed" and record.reason.startswith(RAN_OUT)
    # What it had grown to when it failed is no peak either: it would have gone on growing.
    outgrew = max(start.outgrew, claimed, peak) if ran_out and claimed is not None else start.outgrew
    return SoFar(claimed, peak, max(record.step, record.checkpoint.step), outgrew)


def _another_fit(start: Handover, devices: Sequence[Device], needed: Needed) -> Fit | None:
    """Without its plan where none of these devices wants one, by one where all of them do; None: as it was."""
    if start.fit is None:
        return None
    from ..estimate.asking.fit import Fit

    return Fit.from_record(start.fit).on(devices, needed.memory)


async def gone(record: Record) -> None:
    """Wait for a worker that has said its last word, and holds the job's lock until its process has ended."""
    fd = record.worker.open() if record.worker is not None else None
    if fd is None:
        return
    try:
        with anyio.move_on_after(LEAVING):
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)


def chosen(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    """The job that is meant: the newest that can be resumed when nothing is said."""
    if wanted:
        return find_job(settings, wanted)
    for job, paths in reversed(all_jobs(settings)):
        if read_record(paths).resumable:
            return job, paths
    raise NoJobMeant("can be resumed")


async def wake(settings: Settings, found: Resumption) -> Woken:
    """Have its suspended worker go on, if there is one; where that cannot be, it has ended."""
    if found.resting is None:
        return Woken(False)
    woken = await waking.wake(settings, found.job, found.resting, found.start)
    if not woken.goes_on:
        await gone(found.resting)
    return woken


async def resume(
    settings: Settings,
    wanted: str,
    gpu: str = "",
    memory: int | None = None,
    gpus: tuple[int, int] | None = None,
    back: str = "",
) -> AsyncIterator[str]:
    """Have the job go on by itself, saying so, until it runs or waits in the queue."""
    found = await prepare(settings, wanted, gpu, memory, gpus, back)
    woken = await wake(settings, found)
    if not woken.goes_on:
        _begin(found)
    yield found.words(time.time())
    if woken.words:
        yield woken.words
    yield await _how_it_goes(found)


def _begin(found: Resumption) -> None:
    """Have a new worker go on with the job."""
    waiting = WaitingWorker.spawn(found.env, found.start.python, package=found.start.package)
    try:
        started = found.give_to(waiting)
    except BaseException:
        waiting.dismiss()
        raise
    threading.Thread(target=started.reap, name=f"gpufit-reap-{found.job.name}", daemon=True).start()


async def _how_it_goes(found: Resumption) -> str:
    name, reader = found.job.name, JournalReader(found.paths.journal, found.seq)
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
                                return f"{name} runs on {where_words(device)}. To follow it: gpufit attach {name}"
                            case Failure(_, why):
                                raise NotResumable(name, why)
                            case StateChange(state, reason) if state in LEFT:
                                return f"{name} {in_words(state)}: {reason}"
                    if record.state == "lost":
                        why = f"its process ended unexpectedly at its start (see {found.paths.log})."
                        raise NotResumable(name, f"{why} To try again: gpufit resume {name}")
    finally:
        reader.close()
    return f"{name} waits: {queued or 'its worker is starting'}. To follow it: gpufit attach {name}"
