"""Shipped fakes, for our tests and for those of people who build on this package."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from .devices.device import Device, Kind, Process
from .errors import GpufitError
from .estimate.need import Needed
from .jobs.job import Job
from .lab import Claim, Granted, Lab, Request
from .lab.record import Hold
from .train import Finished, Moved, Outcome, Outgrown, Report, Requeued
from .units import GiB


def fake_device(
    uuid: str = "GPU-fake",
    *,
    label: str = "0",
    index: int = 0,
    kind: Kind = "gpu",
    total: int = 80 * GiB,
    free: int | None = None,  # None: all of it
    processes: tuple[Process, ...] = (),
    utilisation: int | None = 0,
    problem: str = "",
) -> Device:
    """A device that nobody has."""
    return Device(
        uuid=uuid,
        label=label,
        name="Fake GPU",
        index=index,
        kind=kind,
        total=total,
        free=total if free is None else free,
        processes=processes,
        utilisation=utilisation,
        problem=problem,
    )


def fake_grant(device: Device) -> Granted:
    """The whole of a device, held by nobody in particular."""
    hold = Hold(devices=(device.uuid,), bytes=device.total, alone=True)
    request = Request(job_id="fake", name="fake")
    claim = Claim(id="c.0.fake", uid=0, since=0, tie=0, pid=1, request=request, hold=hold)
    return Granted((device,), device.total, True, (), Lab(Path("/nowhere"), shared=False), claim)


@dataclass
class FakeMachine:
    """A machine for `train` that writes down what it was asked, and grants at once."""

    needed: Needed = field(default_factory=lambda: Needed(None, "a whole device"))
    outcomes: list[Outcome] = field(default_factory=lambda: [Finished("done")])  # of each stay on a device
    refuses: GpufitError | None = None
    log: list[str] = field(default_factory=list)
    _taken: Granted | None = None  # by a move, before it leaves

    async def estimate(self, job: Job, report: Report) -> Needed:
        self.log.append("estimated")
        return self.needed

    @asynccontextmanager
    async def claim(self, job: Job, needed: Needed, report: Report) -> AsyncIterator[Granted]:
        if self.refuses is not None:
            raise self.refuses
        granted, self._taken = self._taken or fake_grant(fake_device()), None
        self.log.append(f"claimed device {granted.devices[0].label}")
        try:
            yield granted
        finally:
            self.log.append(f"released device {granted.devices[0].label}")

    async def run(self, job: Job, granted: Granted) -> Outcome:
        self.log.append("ran")
        return self.outcomes.pop(0)

    async def go_on(self, left: Moved | Outgrown | Requeued) -> None:
        if isinstance(left, Outgrown | Requeued):
            self.log.append(left.words if isinstance(left, Outgrown) else "gave its turn to others")
            return
        self.log.append(f"went on to device {left.to.devices[0].label}")
        self._taken = left.to
