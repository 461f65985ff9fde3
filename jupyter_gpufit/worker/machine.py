"""The real machine of `train`: variables, devices and claims of this process, the cell in its main thread."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from ..actions.request import request_for
from ..checkpoint.files import newest_listed
from ..devices.device import Device
from ..devices.here import read_devices_async
from ..errors import CannotGoOn, CannotSuspend, ClaimGone, GpufitError
from ..estimate.asking import for_job
from ..estimate.need import Needed
from ..estimate.reckoning.pace import Pace
from ..graph import Arrival, GraphMemory, Reply, receive
from ..graph.wire import split
from ..jobs.events import Note, StateChange, Why
from ..jobs.handover import Handover, HeldClaim, become, note_start, noted_start
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..lab import Granted, Lab, Request, Waiting, adopt, claim, open_lab
from ..lab.holder import keep
from ..program import Program, hidden
from ..settings import Settings
from ..snapshot.kinds.loaders import remembered
from ..snapshot.libraries import trackers
from ..surroundings import generators, modes
from ..surroundings import travel as surroundings
from ..system.trust import check_trusted
from ..train import Finished, Moved, Outcome, Outgrown, Released, Report
from .children import end_children
from .descriptors import have_some_of_our_own
from .gaps import Gaps
from .keeping import CellKeeps
from .main_thread import MainThread
from .on_device import Meter, on_device
from .outgrown import Outgrowing
from .output import Output
from .points import Points
from .rest import Rest, begin_rest, say_if_it_cannot
from .saving import Saver, Settled, labels
from .shell import WorkerShell, cell_with_magic_line
from .steps import StepCounter


@dataclass
class WorkerMachine:
    """What a worker knows of its world; see train.Machine."""

    settings: Settings
    paths: JobPaths
    handover: Handover
    epoch: int
    process_env: Mapping[str, str]  # with which this process's image was started
    main: MainThread
    output: Output
    shell: WorkerShell
    settled: Settled
    steps: StepCounter
    arrival: Arrival | None = None
    reply: Reply | None = None
    name: str = ""  # of the job
    modes: modes.Modes = field(default_factory=dict)  # as they arrived: what the cell changes goes back
    came: surroundings.Came = field(default_factory=lambda: surroundings.Came({}, {}))  # likewise
    running: bool = False
    ended: Finished | None = None  # how the cell did; its variables are packed
    meter: Meter | None = None
    estimated: for_job.Found = None
    pace: Pace = field(default_factory=Pace)
    rest: Rest | None = None  # while it is suspended
    silent: bool = False  # its calls of CUDA wait: nobody may ask the meter
    devices: Sequence[Device] = ()  # those it may run on, when last looked at
    _cell: Future[Finished | Outgrown] | None = None  # it runs, or stands still, in the main thread

    def __post_init__(self) -> None:
        self.memory = GraphMemory(self.handover.memory)  # the variables' tensor bytes
        self.program = Program(self.shell.user_ns)
        self.program.scratch = str(self.paths.root)
        self.shell.program = self.program
        self.program.on_note = lambda text: self.output.put(Note(text))
        self.keeps = CellKeeps(self)
        self.shell.on_rewritten = self._preflight
        self.saver = Saver(self.keeps, self.main, self.settled, self._waits, self._defect)
        self.points = Points(self.program, self.main, lambda: self.output.log)
        self.points.save = self.saver.at_safe_point
        self.gaps = Gaps(self.points, self.program, lambda text: self.output.put(Note(text)))

    async def open_cell(self, job: Job) -> None:
        if not self.handover.resumes and not self._arrives_on_device() and (await self.look())[0].kind != "slot":
            await self.main.call(self._receive)
        # else: on the device, where `cuda` already means what was granted while the values are opened

    def _arrives_on_device(self) -> bool:
        check_trusted(self.paths.graph)
        return bool(split(self.paths.graph.read_bytes())[0].get("on_device"))

    def _receive(self) -> None:
        check_trusted(self.paths.graph)
        self.arrival = receive(self.paths.graph.read_bytes(), self.memory, self.shell.user_ns)
        generators.arrived(self.shell.user_ns)
        self.modes = modes.arrived(self.shell.user_ns)
        self.came = surroundings.arrived(self.shell.user_ns)
        for remark in self.came.remarks:
            self.output.put(Note(remark))
        for filename, (lines, _) in self.arrival.opened.header.get("sources", {}).items():
            self.program.learn(filename, "".join(lines))

    async def estimate(self, job: Job) -> Needed:
        if self.handover.why:
            return Needed(self.handover.needed, self.handover.why)
        if (asked := for_job.asked_for(job.options, self.settings)) is not None:
            return asked
        if self.handover.resumes and self.handover.needed is not None:
            return Needed(self.handover.needed, "claims as much as before")
        if self.handover.resumes:
            return Needed(None, for_job.WHOLE)
        devices = for_job.allowed_for(job, await self.look())
        check_trusted(self.paths.graph)
        cell = for_job.Cell(self._source(job), self.paths.graph.read_bytes(), self.memory)
        # In the main thread: the child that is forked there ends with the thread that forked it.
        found = self.estimated = await for_job.estimate_in(self.main.call, cell, devices, self.settings)
        needed = for_job.needed_of(found, devices)
        self.shell.remark = lambda error: for_job.remark_on(error, found, needed)
        if found is not None:
            self.output.put(Note(needed.reason))
        if isinstance(found, for_job.Estimated):
            self.handover = replace(self.handover, needed=needed.memory, foreseen=found.estimate.need)
            with suppress(OSError):  # on a full disk, a resume claims a whole device
                note_start(self.paths, self.handover)
        return needed

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
        async with AsyncExitStack() as stack:
            granted = await self._hold(stack, lab, request_for(job, needed.memory), report)
            report(StateChange("starting", device=labels(granted)))
            async with anyio.create_task_group() as group:
                group.start_soon(keep, granted, lambda text: self.output.put(Note(text)))
                yield granted
                group.cancel_scope.cancel()

    async def _hold(self, stack: AsyncExitStack, lab: Lab, request: Request, report: Report) -> Granted:
        """What a move has taken already, or else what the queue gives."""
        if self.handover.gpu:
            request = replace(request, gpu=self.handover.gpu)
        self.request = request
        if (left := self.handover.left) is not None:
            with suppress(ClaimGone):
                async with adopt(lab, left.id, left.fd, self.look):
                    pass  # given back now: the context that was there died with the image before this one
        if (held := self.handover.claim) is not None:
            with suppress(ClaimGone):  # somebody emptied the lab: then it queues as any job does
                return await stack.enter_async_context(adopt(lab, held.id, held.fd, self.look))

        def waiting(why: Waiting) -> None:
            report(StateChange("queued", str(why)))

        return await stack.enter_async_context(claim(lab, request, self.look, waiting))

    async def look(self) -> Sequence[Device]:
        self.devices = await read_devices_async(self.settings)
        return self.devices

    # Run -------------------------------------------------------------------------------------------------------------

    async def run(self, job: Job, granted: Granted, report: Report) -> Outcome:
        self.name, self.granted, self.report = job.name, granted, report
        if self.rest is not None:
            await self._end_rest(self.rest, granted)
        outcomes: list[Outcome] = []
        self.running = True
        try:
            async with anyio.create_task_group() as group:

                async def leave() -> None:
                    outcomes.append(await self.saver.serve(self.settings.checkpoint_every))
                    group.cancel_scope.cancel()  # the main thread stands still, and its call never ends

                group.start_soon(leave)
                group.start_soon(self.gaps.watch)
                if self._cell is None:
                    if self.settings.driver_suspend:
                        group.start_soon(say_if_it_cannot, self)
                    self._cell = self.main.start(lambda: self._run(job, granted))
                else:
                    self.saver.stay()
                finished = await asyncio.wrap_future(self._cell)
                outcomes.append(finished)
                if outcomes[-1] != Finished("done"):
                    await self.saver.settle()
                group.cancel_scope.cancel()
        finally:
            self.running = False
            self.saver.close()
        if outcomes[-1] != Finished("done"):  # else nobody needs what is being written, and its end is this process's
            await anyio.to_thread.run_sync(self.keeps.close)
        if isinstance(outcomes[-1], Released) and self.settings.driver_suspend:
            self.rest = await begin_rest(self)
        if not isinstance(outcomes[-1], Finished) and self.rest is None:
            await anyio.to_thread.run_sync(trackers.close)
            await anyio.to_thread.run_sync(end_children)
            # Until this image is gone: whoever comes next must not find our context's memory still taken.
            self._left: HeldClaim | None = HeldClaim(
                granted.claim.id, fcntl.fcntl(granted.fds[0], fcntl.F_DUPFD_CLOEXEC, 3)
            )
        return outcomes[-1]

    def _run(self, job: Job, granted: Granted) -> Finished | Outgrown:
        mine = os.getpid()
        outgrowing = Outgrowing(self, job, granted, for_job.allowed_for(job, self.devices))
        self.shell.goes_on = outgrowing.takes
        self.pace = for_job.pace_of(self.estimated, granted.devices[0])
        with on_device(granted) as self.meter, self.steps.counting(), remembered():
            key = self._open(job)
            outgrowing.begin()
            left = self._run_cell(job)
            if os.getpid() != mine:
                os._exit(0)  # a child that the cell forked and did not end: it must not act as the worker
            self.program.leave()
            have_some_of_our_own()
            if outgrowing.outcome is None:
                self._pack_result()
                self.ended = _finished(left)
            for_job.learn_from(job, key, self.estimated, granted, left, self.meter.took, self.settings)
        self.output.flush()
        return outgrowing.outcome or _finished(left)

    def _open(self, job: Job) -> str:
        """Fill the namespace; the key under which is learned what the cell took, from its start only."""
        if self.handover.resumes:
            self._restore(job)
            shutil.rmtree(self.paths.result, ignore_errors=True)  # of an earlier end; a restore that fails leaves it
            return ""
        if self.arrival is None:
            self._receive()
        assert self.arrival is not None
        given = {name: self.shell.user_ns.get(name) for name in self.arrival.opened.header["names"]}
        return for_job.key_of(self._source(job), given)

    def _restore(self, job: Job) -> None:
        try:
            self.arrival = self.keeps.restore()
        except GpufitError as error:
            raise CannotGoOn(job.name, str(error).rstrip(".")) from error
        except Exception as error:
            self._defect(error)
            raise CannotGoOn(job.name, f"{type(error).__name__}: {error}") from error

    def _run_cell(self, job: Job) -> BaseException | None:
        before = set(threading.enumerate())
        try:
            with self.main.user_code():
                left = self.shell.run(cell_with_magic_line(job.magic_line, job.source), self.handover.cell_number)
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
        here = self.shell.user_ns
        with (
            generators.travelling(here),
            modes.travelling(here, self.modes),
            surroundings.back(here, self.came) as around,
        ):
            self.reply = self.arrival.reply(skip=self.is_ours, around=around)
        for left in self.reply.left_behind:
            self.output.put(Note(str(left)))

    def is_ours(self, name: str) -> bool:
        return hidden(name) or name in self.shell.user_ns_hidden

    # Checkpoint and move ----------------------------------------------------------------------------------------------

    def _preflight(self) -> None:
        """What fails in it must not keep the cell from running."""
        if not self.handover.resumes:
            try:
                self.keeps.preflight()
            except Exception as error:
                self._defect(error)

    def _waits(self, why: Why, words: str) -> None:
        """A checkpoint waits for its safe point, in these words."""
        if why == "automatic":
            self.output.put(Note(f"The automatic checkpoint is {words}"))
        else:
            self.report(StateChange("moving" if why == "move" else "saving", words, labels(self.granted)))

    def go_on_from_rest(self, epoch: int, **told: Any) -> None:
        """It was woken: it queues again, as any resumed job."""
        assert self.rest is not None
        self.epoch = epoch
        self.handover = replace(self.handover, resumes=True, repeats=False, claim=None, left=None, **told)
        self.rest.prepare(self)

    async def _end_rest(self, rest: Rest, granted: Granted) -> None:
        """Bring the suspended training back; where that cannot be, go on from the disk on what is held now."""
        try:
            self.output.put(Note(await rest.end(self, granted)))
        except CannotSuspend as error:
            self.output.put(Note(f"{self.name} was suspended, and goes on from the disk instead: {error.why}."))
            self._left = None
            await self.go_on(Moved(granted))  # what is left of it on any device ends with this image
        self.rest = None

    async def go_on(self, left: Moved | Outgrown) -> None:
        """Replace this image by one that restores the checkpoint on the device that is held already; or queues."""
        interrupted = self.main.interrupted
        kept = replace(self.handover, memory=list(self.memory.fds), left=self._left, interrupted=interrupted)
        handover = self._moved(kept, left) if isinstance(left, Moved) else self._outgrown(kept, left)
        self.output.stop()
        try:
            become(handover, self.process_env)
        except OSError as error:
            raise CannotGoOn(self.name, error.strerror or str(error)) from error

    def _moved(self, handover: Handover, moved: Moved) -> Handover:
        claim = HeldClaim(moved.to.claim.id, moved.to.fds[0])
        return replace(handover, path=list(sys.path), resumes=True, repeats=False, claim=claim)

    def _outgrown(self, handover: Handover, left: Outgrown) -> Handover:
        """From its newest checkpoint or, where there is none, from its start."""
        self.output.put(Note(left.words))
        needed, why = left.needed.memory, left.needed.reason
        outgrew = max(handover.outgrew, self.granted.claim.request.needed or 0)
        start = replace(handover, claim=None, needed=needed, why=why, outgrew=outgrew)
        resumes = newest_listed(self.paths.checkpoints) is not None
        alive = time.time() if resumes else 0.0
        with suppress(OSError):  # on a full disk, a later resume guesses again
            noted = noted_start(self.paths)
            note_start(self.paths, replace(noted, needed=needed, why=why, outgrew=outgrew, alive_until=alive))
        if not resumes:
            return start
        return replace(start, path=list(sys.path), resumes=True, repeats=True, alive_until=alive)

    def _defect(self, error: Exception) -> None:
        traceback.print_exception(error, file=self.output.log)


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
