"""Asking a running job to be saved (checkpoint), to leave its device (release) or to go on elsewhere (move).

Each says at once what will happen, and then what came of it: a checkpoint only when it is durable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio

from ..errors import EndedFirst, HasEnded, LeavesAlready, NoJobMeant, NotNow, Unreachable, WorkerDied
from ..jobs.client import ask
from ..jobs.events import ENDED_FIRST, WAITING, CouldNotSave, Saved, StateChange
from ..jobs.job import Job
from ..jobs.journal import JournalReader
from ..jobs.paths import JobPaths
from ..jobs.protocol import Answer, Wish
from ..jobs.record import Record, read_record
from ..jobs.state import LEFT, OVER, in_words
from ..jobs.store import all_jobs, find_job
from ..jobs.watch import changes
from ..jobs.words import saved
from ..settings import Settings
from ..units import where_words

STARTING = 30.0  # seconds that a worker may take to import torch on a busy machine


def running_job(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    """The job that is meant: the newest that runs when nothing is said."""
    if wanted:
        return find_job(settings, wanted)
    for job, paths in reversed(all_jobs(settings)):
        if read_record(paths).state not in OVER:
            return job, paths
    raise NoJobMeant("runs")


async def asked(job: Job, paths: JobPaths, verb: Wish, to: str = "") -> AsyncIterator[str]:
    """Ask, and say what happens; raises NotNow where the job goes on as it was."""
    record = read_record(paths)
    if record.state in OVER:
        raise HasEnded(job.name, in_words(record.state), record.resumable)
    if why := record.why_not(verb):
        raise NotNow(job.name, why)
    answer = await _ask(job, paths, record, verb, to)
    if not answer.ok:
        raise LeavesAlready(job.name) if answer.data.get("leaves") else NotNow(job.name, answer.why)
    yield answer.why
    async for words in _outcome(job, paths, verb, answer.data):
        yield words


async def _ask(job: Job, paths: JobPaths, record: Record, verb: Wish, to: str) -> Answer:
    """Of a worker that is just replacing its image on another device, once that listens."""
    try:
        return await ask(job, record, verb, to)
    except Unreachable:
        if record.state != "moving":
            raise
    with anyio.move_on_after(STARTING):
        async with changes(paths) as looks:
            async for now in looks:
                if now.state in OVER:
                    raise HasEnded(job.name, in_words(now.state), now.resumable)
                if now.epoch > record.epoch and now.socket:
                    return await ask(job, now, verb, to)
    raise NotNow(job.name, "it is moving.")


async def _outcome(job: Job, paths: JobPaths, verb: Wish, asked: dict[str, int]) -> AsyncIterator[str]:
    reader = JournalReader(paths.journal, asked.get("after", 0))
    number = asked.get("number", 0)
    ended_first = False
    try:
        async with changes(paths) as looks:
            async for record in looks:
                said_all = record.state in OVER and (record.worker is None or not record.worker.alive())
                for entry in reader.read():
                    match entry.event:
                        case Saved() as event if event.number == number:
                            yield f"{job.name} is {saved(event)}"
                            if verb == "checkpoint":
                                return
                        case CouldNotSave(at, why) if at == number and why != ENDED_FIRST:
                            raise NotNow(job.name, why)
                        case CouldNotSave(at) if at == number:
                            ended_first = True  # and how, comes next
                        case StateChange(state) if state in LEFT and ended_first:
                            raise EndedFirst(job.name, in_words(state))
                        case StateChange(state, reason) if state in LEFT:
                            end = f"is {reason}" if state == "released" else f"{in_words(state)}: {reason}"
                            yield f"{job.name} {end}"
                            return
                        case StateChange("running", _, device, epoch) if epoch > asked.get("epoch", epoch):
                            yield f"{job.name} runs on {where_words(device)}."
                            return
                        case StateChange("saving" | "moving", reason) if reason.startswith(WAITING):
                            yield f"{job.name}: {reason}"
                if record.state == "lost":
                    raise WorkerDied(job.name, "ended unexpectedly.")
                if said_all:
                    raise HasEnded(job.name, in_words(record.state), record.resumable)  # its journal lacks the end
    finally:
        reader.close()
