"""A front's side of a suspended job: have its worker go on, or end it; what cannot be, the disk does.

A process is only ended if the job's record names it, by pid, start time and boot: so it is a worker of ours.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from ..errors import NotResumable, Unreachable
from ..jobs.client import ask
from ..jobs.handover import Handover
from ..jobs.job import Job
from ..jobs.record import Record
from ..settings import Settings
from ..system.foreign import known, parsed_record
from ..system.version import version


@dataclass(frozen=True)
class Woken:
    """What became of a job's suspended worker."""

    goes_on: bool  # else it has ended, or is about to, or there was none
    words: str = ""  # what to say of it


@dataclass(frozen=True)
class GoOn:
    """With what a suspended worker goes on: what a resume says to a new one in its Handover."""

    gpu: str
    needed: int | None
    why: str
    outgrew: int
    settings: Mapping[str, object]  # that hold where it is resumed

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> GoOn:
        found = known(cls, parsed_record(text))
        if set(found) != set(cls.__dataclass_fields__) or not isinstance(found["settings"], dict):
            raise ValueError("it is not what a resume says")
        return cls(**found)


def of_a_worker(settings: Settings) -> dict[str, object]:
    """The settings that a worker goes by, and cannot change once it runs."""
    return {name: value for name, value in asdict(settings).items() if name not in ("spare_worker", "widget")}


async def wake(settings: Settings, job: Job, record: Record, start: Handover) -> Woken:
    """Have the suspended worker of `record` go on. Raises NotResumable where somebody else was faster."""
    if record.version != version():
        await dismiss(job, record)
        return _from_the_disk(job, "it was suspended by another version of jupyter_gpufit")
    wanted = GoOn(start.gpu, start.needed, start.why, start.outgrew, of_a_worker(settings))
    try:
        answer = await ask(job, record, "resume", wanted.to_json())
    except Unreachable as silent:
        _kill(record)
        return _from_the_disk(job, f"its suspended process did not answer ({silent.why}), and was ended")
    if answer.ok:
        return Woken(True, f"{job.name} was suspended, and its process goes on.")
    if answer.data.get("ends"):
        return _from_the_disk(job, answer.why)
    raise NotResumable(job.name, answer.why)


async def dismiss(job: Job, record: Record) -> str:
    """End a suspended worker; one that goes on by now is left alone. What became of it."""
    try:
        answer = await ask(job, record, "dismiss")
    except Unreachable:
        _kill(record)
        answer = None
    if answer is not None and not answer.ok:
        return answer.why
    return f"{job.name}: its suspended process is ended; its checkpoint stays, and `gpufit resume {job.name}` goes on."


def _kill(record: Record) -> None:
    assert record.worker is not None
    record.worker.signal(signal.SIGKILL)


def _from_the_disk(job: Job, why: str) -> Woken:
    return Woken(False, f"{job.name} goes on from the disk: {why}.")
