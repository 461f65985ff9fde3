"""Jobs that claim devices, wait and give back, each a task of the test's own process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.errors import DeviceUnreadable
from jupyter_gpufit.lab import Granted, Lab, Request, Waiting, claim
from jupyter_gpufit.units import GiB
from tests.lab.values import request


@dataclass
class Machine:
    """Devices that a test changes as it goes."""

    devices: Sequence[Device]
    looks: int = 0
    fails: bool = False

    async def look(self) -> Sequence[Device]:
        self.looks += 1
        if self.fails:
            raise DeviceUnreadable("The NVIDIA driver", "it hangs.")
        return self.devices


@dataclass
class Job:
    """A job in a task of its own: it holds what it gets until it is told to end."""

    lab: Lab
    machine: Machine
    request: Request
    started: anyio.Event = field(default_factory=anyio.Event)
    ending: anyio.Event = field(default_factory=anyio.Event)
    waits: list[Waiting] = field(default_factory=list)
    waited: anyio.Event = field(default_factory=anyio.Event)
    grant: Granted | None = None

    async def run(self) -> None:
        async with claim(self.lab, self.request, self.machine.look, self._report) as self.granted:
            self.started.set()
            await self.ending.wait()

    def _report(self, waiting: Waiting) -> None:
        self.waits.append(waiting)
        self.waited.set()

    async def until_it_waits_for(self, why: str) -> Waiting:
        with anyio.fail_after(300):
            while not self.waits or self.waits[-1].why != why:
                self.waited = anyio.Event()
                await self.waited.wait()
        return self.waits[-1]

    async def until_it_started(self) -> Granted:
        with anyio.fail_after(300):
            await self.started.wait()
        assert self.granted is not None
        return self.granted


@asynccontextmanager
async def jobs(lab: Lab, machine: Machine) -> AsyncIterator[Jobs]:
    async with anyio.create_task_group() as group:
        yield Jobs(lab, machine, group)
        group.cancel_scope.cancel()


@dataclass
class Jobs:
    lab: Lab
    machine: Machine
    group: TaskGroup

    def start(self, gib: int | None, **more: object) -> Job:
        job = Job(self.lab, self.machine, request(None if gib is None else gib * GiB, **more))
        self.group.start_soon(job.run)
        return job

    async def running(self, gib: int | None, **more: object) -> Job:
        job = self.start(gib, **more)
        await job.until_it_started()
        return job

    async def waiting(self, gib: int | None, why: str = "held", **more: object) -> Job:
        job = self.start(gib, **more)
        await job.until_it_waits_for(why)
        return job


def left(lab: Lab) -> set[str]:
    """The tickets and claims in the lab, dead or alive."""
    return {name for name in os.listdir(lab.path) if name[0] in "qc"}
