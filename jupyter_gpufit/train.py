"""START HERE: one job from its cell to its end.

    cell -> estimate -> claim -> run -> release
                          ^       |
                          +-------+  move, resume from a checkpoint, or another turn

This runs inside the job's worker, the one process that holds the device's lock and its CUDA context. Each step lives
in the module of its name; `Machine` is what they act on: the real one (worker/machine.py) or the fake (testing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from .estimate.need import Needed
from .jobs.events import StateChange
from .jobs.job import Job
from .lab import Granted

Report = Callable[[StateChange], None]


@dataclass(frozen=True)
class Finished:
    """The job has ended."""

    state: Literal["done", "failed", "stopped"]
    reason: str = ""


@dataclass(frozen=True)
class Released:
    """The job is saved and leaves its device; a resume goes on from there."""

    reason: str  # "released at step 1,204; ..."


@dataclass(frozen=True)
class Moved:
    """The job is saved, and holds the device on which it goes on already."""

    to: Granted


@dataclass(frozen=True)
class Outgrown:
    """The job ran out of a claim that was only a guess, or of its device; it goes on with more, or by a plan."""

    needed: Needed
    words: str  # what is said of it
    lowered: bool = False  # under the next plan of its ladder


@dataclass(frozen=True)
class Requeued:
    """The job gives its devices to who waits for them, and queues again to go on from its newest checkpoint.

    Its turn is over; or, of a training on several devices, one of its processes is.
    """

    needed: Needed
    repeats: bool = False  # it had gone on after its checkpoint, so that output may come again


Outcome: TypeAlias = Finished | Released | Moved | Outgrown | Requeued


class Machine(Protocol):
    """The world of a job, as far as its steps touch it."""

    async def estimate(self, job: Job, report: Report) -> Needed:
        """Say what the cell will need, without touching a device; report what takes long."""

    def claim(self, job: Job, needed: Needed, report: Report) -> AbstractAsyncContextManager[Granted]:
        """Wait in the queue for a device where it fits, and hold it; after a move, hold what was taken before it."""

    async def run(self, job: Job, granted: Granted) -> Outcome:
        """Run the cell on what was granted, from its start or from its checkpoint, until it leaves."""

    async def go_on(self, left: Moved | Outgrown | Requeued) -> None:
        """Replace this process's image, so that nothing of it stays on the device it leaves.

        So the real one does not return: the next turn of the loop is the new image's first.
        """


async def train(job: Job, machine: Machine, report: Report) -> Finished | Released:
    """Run `job` to its end or its release, moving it between devices as often as it is asked to.

    One that turns out to need more than was guessed queues again, for more; and so does one whose turn is over.
    """
    report(StateChange("estimating"))
    needed = await machine.estimate(job, report)
    report(StateChange("queued", needed.reason))
    while True:
        async with machine.claim(job, needed, report) as granted:
            report(StateChange("running", device=", ".join(device.label for device in granted.devices)))
            outcome = await machine.run(job, granted)
        if isinstance(outcome, Finished | Released):
            return outcome
        await machine.go_on(outcome)
        if isinstance(outcome, Outgrown | Requeued):
            needed = outcome.needed
            report(StateChange("queued", needed.reason))
