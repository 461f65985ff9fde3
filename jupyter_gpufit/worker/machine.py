"""The real machine of `train`: variables, devices and claims of this process, the cell in its main thread."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from ..cell import modes, rng
from ..claims import Granted, Waiting, claim, open_lab
from ..claims.keep import keep
from ..devices import Device, parse_slots, read_devices_async
from ..estimate import for_job
from ..estimate.pace import Pace
from ..graph import Arrival, Memory, Reply, receive
from ..job import Job, JobPaths, check_trusted
from ..settings import Settings
from ..train import Finished, Needed, Report, request_for
from .main_thread import MainThread
from .messages import Note, StateChange
from .on_device import Meter, on_device
from .output import Output
from .shell import WorkerShell, cell_with_magic_line
from .steps import StepCounter


@dataclass
class WorkerMachine:
    """What a worker knows of its world; see train.Machine."""

    settings: Settings
    paths: JobPaths
    memory: Memory  # the variables' tensor bytes
    cell_number: int
    main: MainThread
    output: Output
    shell: WorkerShell
    arrival: Arrival | None = None
    reply: Reply | None = None
    modes: modes.Modes = field(default_factory=dict)  # as they arrived: what the cell changes goes back
    running: bool = False
    meter: Meter | None = None
    estimated: for_job.Estimated | str | None = None  # or why there is none
    pace: Pace = field(default_factory=Pace)
    steps: StepCounter = field(default_factory=StepCounter)

    async def open_cell(self, job: Job) -> None:
        if not parse_slots(self.settings.devices):
            await self.main.call(self._receive)
        # else: on the slot, where `cuda` already means the slot while names from torch.cuda are looked up

    def _receive(self) -> None:
        check_trusted(self.paths.graph)
        self.arrival = receive(self.paths.graph.read_bytes(), self.memory, self.shell.user_ns)
        rng.arrived(self.shell.user_ns)
        self.modes = modes.arrived(self.shell.user_ns)

    async def estimate(self, job: Job) -> Needed:
        if (asked := for_job.asked_for(job.options)) is not None:
            return asked
        if self.settings.estimate_limit <= 0:
            return Needed(None, "asks for a whole device")
        devices = await self._look()
        source = self._source(job)
        check_trusted(self.paths.graph)
        graph = self.paths.graph.read_bytes()
        # In the main thread: the child that is forked there ends with the thread that forked it.
        found = await self.main.call(
            lambda: for_job.estimate_job(job, source, graph, self.memory, devices, self.settings)
        )
        self.estimated = found
        return for_job.needed_of(found, devices)

    def _source(self, job: Job) -> str:
        text: str = self.shell.transform_cell(  # type: ignore[no-untyped-call]
            cell_with_magic_line(job.magic_line, job.source)
        )
        return text

    @asynccontextmanager
    async def claim(self, job: Job, needed: Needed, report: Report) -> AsyncIterator[Granted]:
        lab = open_lab(self.settings)
        if lab.remark:
            self.output.put(Note(lab.remark, once=True))
        request = request_for(job, needed.memory)

        def waiting(why: Waiting) -> None:
            report(StateChange("queued", str(why)))

        async with claim(lab, request, self._look, waiting) as granted:
            report(StateChange("starting", device=", ".join(device.label for device in granted.devices)))
            async with anyio.create_task_group() as group:
                group.start_soon(keep, granted, lambda text: self.output.put(Note(text)))
                yield granted
                group.cancel_scope.cancel()

    async def _look(self) -> Sequence[Device]:
        return await read_devices_async(self.settings)

    async def run(self, job: Job, granted: Granted) -> Finished:
        self.running = True
        try:
            return await self.main.call(lambda: self._run(job, granted))
        finally:
            self.running = False

    def _run(self, job: Job, granted: Granted) -> Finished:
        mine = os.getpid()
        self.pace = for_job.pace_of(self.estimated, granted.devices[0])
        with on_device(granted) as self.meter, self.steps.counting():
            if self.arrival is None:
                self._receive()
            key = self._key(job)
            left = self._run_cell(job)
            if os.getpid() != mine:
                os._exit(0)  # a child that the cell forked and did not end: it must not act as the worker
            self._pack_result()
            if left is None:  # what was interrupted or failed need not have come to its peak
                for_job.learn_from(job, key, self.estimated, granted.devices[0], self.meter.took, self.settings)
        self.output.flush()
        return _finished(left)

    def _key(self, job: Job) -> str:
        assert self.arrival is not None
        given = {name: self.shell.user_ns.get(name) for name in self.arrival.opened.header["names"]}
        return for_job.key_of(self._source(job), given)

    def _run_cell(self, job: Job) -> BaseException | None:
        before = set(threading.enumerate())
        try:
            with self.main.user_code():
                left = self.shell.run(cell_with_magic_line(job.magic_line, job.source), self.cell_number)
                self._wait_for_threads(before)
                return left
        except KeyboardInterrupt as interrupt:  # in the few instructions around the cell, or while its threads end
            return interrupt

    def _wait_for_threads(self, before: set[threading.Thread]) -> None:
        """A thread of the cell may still be computing what the notebook expects."""
        started = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
        if any(thread.is_alive() for thread in started):
            self.output.put(Note(f"Waiting for {len(started)} threads that the cell started; interrupt to go on."))
        for thread in started:
            thread.join()

    def _pack_result(self) -> None:
        assert self.arrival is not None
        with rng.travelling(self.shell.user_ns), modes.travelling(self.shell.user_ns, self.modes):
            self.reply = self.arrival.reply(skip=self.shell.user_ns_hidden.__contains__)
        for left in self.reply.left_behind:
            self.output.put(Note(str(left)))


def _finished(left: BaseException | None) -> Finished:
    match left:
        case None:
            return Finished("done")
        case SystemExit(code=None | 0):
            return Finished("done", "the cell called sys.exit()")
        case KeyboardInterrupt():
            return Finished("stopped", "interrupted")
        case _:
            text = str(left).strip().splitlines()
            return Finished("failed", f"{type(left).__name__}: {text[0]}" if text else type(left).__name__)
