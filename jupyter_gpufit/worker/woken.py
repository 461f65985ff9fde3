"""What a suspended worker answers to who would have it go on, or end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import GpufitError
from ..jobs.epoch import current_epoch
from ..jobs.handover import note_start, noted_start
from ..jobs.protocol import Answer, Waking
from ..jobs.record import lock
from ..suspend.waking import GoOn, of_a_worker
from .account import Account
from .lifecycle import Asked
from .rest import Rest
from .training import Training


def answer(training: Training, rest: Rest | None, account: Account, fd: int, verb: Waking, to: str) -> Answer:
    """Go on (resume) or end (dismiss); `fd`: of the job's lock, which a resting worker does not hold."""
    if rest is None or training.life.phase != "resting":
        return Answer(False, f"it is {account.record.state}. To follow it: %gpufit attach {training.name}")
    if verb == "dismiss":
        training.take(Asked("dismiss"))
        return Answer(True)
    try:
        why = _begin_again(training, account, fd, GoOn.from_json(to))
        if not why:
            rest.prepare(training)
    except (GpufitError, OSError, ValueError) as error:
        why = str(error)
    training.take(Asked("dismiss" if why else "resume"))
    return Answer(False, why, {"ends": True}) if why else Answer(True)


def _begin_again(training: Training, account: Account, fd: int, wanted: GoOn) -> str:
    """Take the job up once more, as its next epoch; or why this process cannot."""
    mine = of_a_worker(training.settings)
    if others := [name for name, value in wanted.settings.items() if value != mine.get(name)]:
        return f"other settings hold here ({', '.join(others)})"
    lock(fd, training.name)
    if current_epoch(training.paths) != account.record.epoch:
        return "another worker has gone on with it since"
    told: dict[str, Any] = {"needed": wanted.needed, "why": wanted.why, "outgrew": wanted.outgrew}
    note_start(training.paths, replace(noted_start(training.paths), **told))
    account.begin_again()
    training.epoch = account.record.epoch
    told |= {"gpu": wanted.gpu, "resumes": True, "repeats": False, "claim": None, "left": None}
    training.handover = replace(training.handover, **told)  # it queues again, as any resumed job
    return ""
