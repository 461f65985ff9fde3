"""A job that ran out of a claim which we had guessed goes on by itself with a larger one, or else by another plan.

From its newest checkpoint; where it has none yet, from its start, if the bytes it was given are still what they were:
a cell that trains host tensors in place has nothing to begin again with. A number of the user's own is a limit that
they meant, and a whole device is all there is: then the cell fails, as it would in the notebook.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import xxhash

from ..checkpoint.files import newest_listed
from ..devices.device import Device
from ..estimate.asking.for_job import WHOLE
from ..estimate.need import Needed
from ..estimate.reckoning.for_resume import larger
from ..fit.memory import ran_out
from ..graph import GraphMemory
from ..graph.wire import split
from ..jobs.handover import Handover, note_start, noted_start
from ..jobs.job import Job
from ..lab import Granted
from ..train import Outgrown
from ..units import device_words, format_bytes
from . import no_device
from .training import Training

AGAIN = "it starts again from the beginning"
REPEATS = "What follows may repeat lines from above."


@dataclass
class Growth:
    """One run's."""

    training: Training
    job: Job
    devices: Sequence[Device]  # on which it may run
    outcome: Outgrown | None = None
    _given: str = ""  # a digest of the bytes it was given; empty: it cannot begin again

    def begin(self) -> None:
        """As the cell begins, and before it can change what it was given."""
        if not self.is_users_own and not self.training.handover.resumes:
            graph = self.training.paths.graph
            if not any(writable for _, writable in split(graph.read_bytes())[0]["files"]):
                self._given = _digest(self.training.memory)

    @property
    def is_users_own(self) -> bool:
        """Whether what is claimed is what the user wants, and no guess of ours."""
        needed = self.training.granted.claim.request.needed
        users = (self.job.options.memory, self.training.handover.asked)
        return self.job.options.exclusive or (needed is not None and needed in users)

    @property
    def claimed(self) -> int | None:
        """Bytes that were claimed by a guess of ours."""
        return None if self.is_users_own else self.training.granted.claim.request.needed

    def takes(self, error: BaseException) -> bool:
        """Whether this error ends only the run, and not the job."""
        if not ran_out(error) or self.is_users_own or not (where := self.goes_on_from()):
            return False
        if no_device.is_held(self.training.granted):
            self.outcome = self._onto_a_gpu(where)
            return True
        needed = larger(self.claimed, self.devices) if self.claimed is not None else None
        self.outcome = self._larger(needed, where) if needed is not None else self._lower(where)
        return self.outcome is not None

    def _onto_a_gpu(self, where: str) -> Outgrown:
        words = f"{self.job.name} used no GPU in its trial run, and uses one now."
        return Outgrown(Needed(None, WHOLE), f"{words} {_goes_on(where)}, with a GPU. {REPEATS}")

    def _larger(self, needed: Needed, where: str) -> Outgrown:
        assert self.claimed is not None
        more = "a whole device" if needed.memory is None else format_bytes(needed.memory)
        return Outgrown(
            needed,
            f"{self.job.name} needs more than the {format_bytes(self.claimed)} that were claimed for it, by an estimate"
            f" or by what it had taken. {_goes_on(where)}, with {more}. {REPEATS}",
        )

    def _lower(self, where: str) -> Outgrown | None:
        """There is no more memory: one rung further down, where there is one."""
        training, fit = self.training, self.training.fit
        if not fit.lower:
            return None
        plan, device = fit.lower[0], device_words([training.granted.devices[0].label])
        had = format_bytes(training.granted.bytes)
        result = "the result is the same to the bit" if plan.exact else "the result is not the same to the bit"
        return Outgrown(
            Needed(None, f"needs a whole device and {plan.words}, since {had} were too little{_for(fit.said)}"),
            f"{self.job.name} ran out of memory on all of {device} ({had}). {_goes_on(where)}, by {plan.words}."
            f" That is slower, and {result}. {REPEATS}",
            lowered=True,
        )

    def goes_on_from(self) -> str:
        """What it does then, as a part of a sentence; empty where it could not go on."""
        if (newest := newest_listed(self.training.paths.checkpoints)) is not None:
            return f"it goes on from its checkpoint at step {newest.about.step:,}"
        return AGAIN if self._given and self._given == _digest(self.training.memory) else ""


def larger_start(training: Training, handover: Handover, left: Outgrown) -> Handover:
    """As what the next image goes on: from its newest checkpoint or, where there is none, from its start."""
    training.note(left.words)
    needed, why = left.needed.memory, left.needed.reason
    outgrew = max(handover.outgrew, training.granted.claim.request.needed or 0)
    # What it was estimated to need was too little, as it is or by a plan: nobody can tell any more where it would fit.
    fit = replace(training.fit.lowered(), plain=0).to_record() if left.lowered else handover.fit
    start = replace(handover, claim=None, needed=needed, why=why, outgrew=outgrew, fit=fit)
    resumes = newest_listed(training.paths.checkpoints) is not None
    alive = time.time() if resumes else 0.0
    with suppress(OSError):  # on a full disk, a later resume guesses again
        noted = noted_start(training.paths)
        again = replace(noted, needed=needed, why=why, outgrew=outgrew, alive_until=alive, fit=fit)
        note_start(training.paths, again)
    if not resumes:
        return start
    return replace(start, path=list(sys.path), resumes=True, repeats=True, alive_until=alive)


def another_fit(training: Training, to: Granted) -> Handover | None:
    """As what it was started, where it goes on without its plan on what it holds there, or by one; None: as it was."""
    fit = training.fit_on(to.devices) if len(to.devices) == 1 else None
    if fit is None or (not fit.plan.parts and to.bytes < fit.plain):
        return None
    training.note(f"{training.name} {fit.changed.reason}.")
    noted = replace(noted_start(training.paths), fit=fit.to_record(), needed=fit.changed.memory, why=fit.changed.reason)
    with suppress(OSError):  # on a full disk, a later resume goes on as before
        note_start(training.paths, noted)
    return noted


def _goes_on(where: str) -> str:
    return f"It has no checkpoint, so {where}" if where == AGAIN else f"{where[0].upper()}{where[1:]}"


def _for(said: str) -> str:
    return f" for {said}" if said else ""


def _digest(memory: GraphMemory) -> str:
    return xxhash.xxh3_128(memoryview(memory.map(0, memory.size)).cast("B")).hexdigest()
