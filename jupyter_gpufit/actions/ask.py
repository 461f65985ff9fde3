"""Asking a running job to be saved (checkpoint), to leave its device (release) or to go on elsewhere (move).

Each says at once what will happen, and then what came of it: a checkpoint only when it is durable.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

from ..errors import HasEnded, NoJobMeant, NotNow, WorkerDied
from ..jobs.client import ask
from ..jobs.events import WAITING, CouldNotSave, Saved, StateChange
from ..jobs.job import Job
from ..jobs.journal import JournalReader
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import LEFT, OVER
from ..jobs.store import all_jobs, find_job
from ..jobs.verbs import why_not
from ..jobs.watch import changes
from ..jobs.words import saved
from ..settings import Settings

Wanted = Literal["checkpoint", "release", "move"]


def running_job(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    """The job that is meant: the newest that runs when nothing is said."""
    if wanted:
        return find_job(settings, wanted)
    for job, paths in reversed(all_jobs(settings)):
        if read_record(paths).state not in OVER:
            return job, paths
    raise NoJobMeant("runs")


async def asked(job: Job, paths: JobPaths, verb: Wanted, to: str = "") -> AsyncIterator[str]:
    """Ask, and say what happens; raises NotNow where the job goes on as it was."""
    record = read_record(paths)
    if record.state in OVER:
        raise HasEnded(job.name, record.state, record.resumable)
    if why := why_not(verb, record):
        raise NotNow(job.name, why)
    answer = await ask(job, record, verb, to)
    if not answer.ok:
        raise NotNow(job.name, answer.why)
    yield answer.why
    async for words in _outcome(job, paths, verb, answer.data):
        yield words


async def _outcome(job: Job, paths: JobPaths, verb: Wanted, asked: dict[str, int]) -> AsyncIterator[str]:
    reader = JournalReader(paths.journal, asked.get("after", 0))
    number = asked.get("number", 0)
    try:
        async with changes(paths) as looks:
            async for record in looks:
                for entry in reader.read():
                    match entry.event:
                        case Saved() as event if event.number == number:
                            yield f"{job.name} is {saved(event)}"
                            if verb == "checkpoint":
                                return
                        case CouldNotSave(at, why) if at == number:
                            raise NotNow(job.name, why)
                        case StateChange(state, reason) if state in LEFT:
                            yield f"{job.name} is {reason if state == 'released' else f'{state}: {reason}'}"
                            return
                        case StateChange("running", _, device, epoch) if epoch > asked.get("epoch", epoch):
                            yield f"{job.name} runs on {device}."
                            return
                        case StateChange("saving" | "moving", reason) if reason.startswith(WAITING):
                            yield f"{job.name}: {reason}"
                if record.state == "lost":
                    raise WorkerDied(job.name, "is gone.")
    finally:
        reader.close()
