"""START HERE: one job from its cell to its end.

    cell -> estimate -> claim -> run -> release

This runs inside the job's worker, the one process that holds the device's lock and its CUDA context. Each step lives
in the module of its name; `Machine` is what they act on: the real one (worker/machine.py) or the fake (testing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from .claims import Granted, Request
from .job import Job
from .worker.messages import StateChange

Report = Callable[[StateChange], None]


def request_for(job: Job, memory: int | None) -> Request:
    """What the job asks of the lab."""
    options = job.options
    return Request(
        job_id=job.id,
        name=job.name,
        label=job.notebook,
        needed=memory,
        exclusive=options.exclusive,
        gpu=options.gpu,
    )


@dataclass(frozen=True)
class Needed:
    """The memory a job will claim."""

    memory: int | None  # bytes on one device; None: the whole device
    reason: str  # where the number comes from


@dataclass(frozen=True)
class Finished:
    """How a job ended."""

    state: Literal["done", "failed", "stopped"]
    reason: str = ""


class Machine(Protocol):
    """The world of a job, as far as its steps touch it."""

    async def open_cell(self, job: Job) -> None:
        """Take in the variables the cell was given."""

    async def estimate(self, job: Job) -> Needed:
        """Say what the cell will need, without touching a device."""

    def claim(self, job: Job, needed: Needed, report: Report) -> AbstractAsyncContextManager[Granted]:
        """Wait in the queue for a device where it fits, and hold it."""

    async def run(self, job: Job, granted: Granted) -> Finished:
        """Run the cell on what was granted, to its end."""


async def train(job: Job, machine: Machine, report: Report) -> Finished:
    """Run `job` to its end."""
    report(StateChange("estimating"))
    await machine.open_cell(job)
    needed = await machine.estimate(job)
    report(StateChange("queued", needed.reason))
    async with machine.claim(job, needed, report) as granted:
        report(StateChange("running", device=", ".join(device.label for device in granted.devices)))
        return await machine.run(job, granted)
