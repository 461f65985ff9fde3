"""The real machine of `train`: devices and claims of this process, and the cell in its main thread."""

from __future__ import annotations

import asyncio
import fcntl
import sys
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import replace

import anyio
from anyio.abc import TaskStatus

from ..actions.request import request_for
from ..devices.here import not_asked_for
from ..errors import BadOption, CannotGoOn, CannotSuspend, ClaimGone
from ..estimate.asking import for_job, lesson
from ..estimate.need import Needed
from ..jobs.events import StateChange, Why
from ..jobs.handover import Handover, HeldClaim, become, note_start
from ..jobs.job import Job
from ..lab import Granted, Lab, Request, Waiting, adopt, claim, open_lab
from ..lab.grant import Look
from ..lab.holder import keep
from ..settings import Settings
from ..snapshot.libraries import trackers
from ..system.trust import check_trusted
from ..train import Finished, Moved, Outcome, Outgrown, Released, Report, Requeued
from . import no_device
from .cell import CellInWorker
from .elastic import Elastic
from .finals import Finals
from .gaps import Gaps
from .growth import Growth, another_fit, larger_start
from .keeper import Keeper
from .lifecycle import CellLeft, CellRuns, Delayed
from .losses import Losses
from .main_thread import MainThread
from .points import Points
from .process import end_children
from .rest import Rest, begin_rest, say_if_it_cannot
from .saving import Saver, Settled, labels
from .share import Share
from .training import Training
from .turns import TurnTaking, for_another_turn


class WorkerMachine:
    """Performs the steps of a training; see train.Machine."""

    def __init__(self, training: Training, main: MainThread, settled: Settled) -> None:
        self.training = training
        self.main = main
        self.points = Points(training.program, main, lambda: training.output.log)
        self.keeper = Keeper(training, self.points.want_save)
        self.losses = Losses(training)
        self.finals = Finals(main, self.points.reading, self.points.seen)
        training.program.at_loops_end = self.finals.loop_over
        self.cell = CellInWorker(training, main, self.keeper, self.losses, self.finals)
        self.saver = self.losses.saver = Saver(self.keeper, main, settled, self._waits, training.defect)
        self.points.save = self._save
        training.shell.comms.wake = self.points.want_heard
        self.gaps = Gaps(self.points, training.program, training.note)
        self.rest: Rest | None = None  # while it is suspended
        self._estimated: for_job.Found = None
        self._runs: Future[Finished | Outgrown] | None = None  # it runs, or stands still, in the main thread
        self._growth: Growth | None = None
        self._left: HeldClaim | None = None  # by a training that goes on elsewhere
        training.shell.on_rewritten = self._preflight

    async def estimate(self, job: Job, report: Report) -> Needed:
        training = self.training
        if training.handover.why:
            return Needed(training.handover.needed, training.handover.why)
        if (asked := for_job.asked_for(job.options, training.settings)) is not None:
            return asked
        if training.handover.resumes and training.handover.needed is not None:
            if training.handover.gpu and not training.handover.needed:
                return Needed(None, for_job.WHOLE)
            return Needed(training.handover.needed, "claims as much as before")
        if training.handover.resumes:
            return Needed(None, for_job.WHOLE)
        devices = for_job.allowed_for(job, await training.look())
        check_trusted(training.paths.graph)
        cell = for_job.Cell(self.cell.text(job), training.paths.graph.read_bytes(), training.memory)
        # In the main thread: the child that is forked there ends with the thread that forked it.
        loop = asyncio.get_running_loop()

        def tell(words: str) -> None:
            loop.call_soon_threadsafe(report, StateChange("estimating", words))

        found = self._estimated = await for_job.estimate_in(
            self.main.call, cell, devices, self._settings(job), self._gpus(job), tell
        )
        needed = for_job.needed_of(found, devices, names_device=bool(job.options.gpu))
        if needed.memory == 0 and self._gpus(job)[0] > 1:
            raise BadOption("This cell uses no GPU as far as a trial run can tell. Run it without --gpus.")
        training.shell.remark = lambda error: lesson.remark_on(error, found, needed)
        if found is not None:
            training.note(needed.reason)
        if isinstance(found, for_job.Estimated):
            known = replace(training.handover, needed=needed.memory, foreseen=found.estimate.need)
            least, most = self._gpus(job)
            # On fewer it would not fit, and on more it would not end sooner.
            gpus = max(least, found.fit.devices), max(least, min(most, found.best or most))
            known = replace(known, gpus=gpus) if gpus != (least, most) else known
            training.handover = replace(known, fit=found.fit.to_record())
            with suppress(OSError):  # on a full disk, a resume claims a whole device
                note_start(training.paths, training.handover)
        return needed

    def _settings(self, job: Job) -> Settings:
        return replace(self.training.settings, fit=job.options.fit or self.training.settings.fit)

    def _gpus(self, job: Job) -> tuple[int, int]:
        return self.training.handover.gpus or job.options.gpus

    @asynccontextmanager
    async def claim(self, job: Job, needed: Needed, report: Report) -> AsyncIterator[Granted]:
        training = self.training
        async with AsyncExitStack() as stack:
            if no_device.suffices(needed, training.handover):
                lab = stack.enter_context(no_device.lab_of(job.id, training.settings))
                granted = await self._hold(stack, lab, request_for(job, None, (1, 1)), report, no_device.look)
            else:
                lab = open_lab(training.settings, waits=True)
                asked = request_for(job, needed.memory or None, training.handover.gpus)
                wanted = replace(asked, host=training.fit.plan.host)
                granted = await self._hold(stack, lab, wanted, report, training.look)
            for remark in filter(None, (granted.remark, not_asked_for(granted.devices, training.settings))):
                training.note(remark, once=True)
            report(StateChange("starting", device=labels(granted)))
            async with anyio.create_task_group() as group:
                turns = None if no_device.is_held(granted) else TurnTaking(training, granted, self.saver)
                group.start_soon(keep, granted, training.note, turns)
                yield granted
                group.cancel_scope.cancel()

    async def _hold(self, stack: AsyncExitStack, lab: Lab, request: Request, report: Report, look: Look) -> Granted:
        """What a move has taken already, or else what the queue gives."""
        training = self.training
        if training.handover.gpu:
            request = replace(request, gpu=training.handover.gpu)
        training.request = request
        if (left := training.handover.left) is not None:
            with suppress(ClaimGone):
                async with adopt(lab, left.id, left.fd, look):
                    pass  # given back now: the context that was there died with the image before this one
        if (held := training.handover.claim) is not None:
            with suppress(ClaimGone):  # somebody emptied the lab: then it queues as any job does
                return await stack.enter_async_context(adopt(lab, held.id, held.fd, look))

        def waiting(why: Waiting) -> None:
            report(StateChange("queued", why.sentence(time.time(), stays=True)))

        return await stack.enter_async_context(claim(lab, request, look, waiting))

    # Run -------------------------------------------------------------------------------------------------------------

    async def run(self, job: Job, granted: Granted) -> Outcome:
        training = self.training
        training.held = granted
        if self.rest is not None:
            await self._end_rest(self.rest, granted)
        outcome: Outcome | None = None
        growth = self._growth = self._growth or Growth(training, job, for_job.allowed_for(job, training.devices))
        try:
            async with anyio.create_task_group() as group:

                async def leave(*, task_status: TaskStatus[None]) -> None:
                    nonlocal outcome
                    outcome = await self.saver.serve(training.settings.checkpoint_every, task_status=task_status)
                    group.cancel_scope.cancel()  # the main thread stands still, and its call never ends

                await group.start(leave)
                training.take(CellRuns())
                group.start_soon(self.gaps.watch)
                group.start_soon(Share(training, growth).watch)
                group.start_soon(Elastic(training, self.saver).watch)
                if self._runs is None:
                    if training.settings.driver_suspend:
                        group.start_soon(say_if_it_cannot, training)
                    self._runs = self.main.start(lambda: self.cell.run(job, granted, growth, self._estimated))
                else:
                    self.saver.stay()
                outcome = await asyncio.wrap_future(self._runs)
                if outcome != Finished("done"):
                    await self.saver.settle()
                group.cancel_scope.cancel()
        finally:
            self.saver.close()
            training.take(CellLeft(outcome))
        assert outcome is not None
        if outcome != Finished("done"):  # else nobody needs what is being written, and its end is this process's
            await anyio.to_thread.run_sync(self.keeper.close)
        if not isinstance(outcome, Finished) and self.cell.ranks is not None:
            await anyio.to_thread.run_sync(self.cell.ranks.end)
        if isinstance(outcome, Released) and training.settings.driver_suspend and len(granted.devices) == 1:
            self.rest = await begin_rest(training)
        if not isinstance(outcome, Finished) and self.rest is None:
            await anyio.to_thread.run_sync(trackers.close)
            await anyio.to_thread.run_sync(end_children)
            # Until this image is gone: whoever comes next must not find our context's memory still taken.
            self._left = HeldClaim(granted.claim.id, fcntl.fcntl(granted.fds[0], fcntl.F_DUPFD_CLOEXEC, 3))
        return outcome

    # Checkpoint and move ----------------------------------------------------------------------------------------------

    def _save(self) -> None:
        comms = self.training.shell.comms
        comms.flush()  # this process may end there
        comms.hears = False
        with self.cell.ranks.with_all_processors() if self.cell.ranks is not None else nullcontext():
            self.saver.at_safe_point()
        comms.hears = True

    def _preflight(self) -> None:
        """What fails in it must not keep the cell from running."""
        if not self.training.handover.resumes:
            try:
                self.keeper.preflight()
            except Exception as error:
                self.training.defect(error)

    def _waits(self, why: Why, words: str) -> None:
        """A checkpoint waits for its safe point, in these words."""
        training = self.training
        if why == "automatic":
            training.note(f"The automatic checkpoint is {words}")
        else:
            training.take(Delayed(words))

    async def _end_rest(self, rest: Rest, granted: Granted) -> None:
        """Bring the suspended training back; where that cannot be, go on from the disk on what is held now."""
        training = self.training
        try:
            training.note(await rest.end(training, granted))
        except CannotSuspend as error:
            training.note(f"{training.name} was suspended, and goes on from the disk instead: {error.why}.")
            self._left = None
            await self.go_on(Moved(granted))  # what is left of it on any device ends with this image
        self.rest = None

    async def go_on(self, left: Moved | Outgrown | Requeued) -> None:
        """Replace this image by one that restores the checkpoint on the device that is held already; or queues."""
        training = self.training
        interrupted = self.main.interrupted
        kept = replace(training.handover, memory=list(training.memory.fds), left=self._left, interrupted=interrupted)
        match left:
            case Moved():
                handover = self._moved(kept, left)
            case Outgrown():
                handover = larger_start(training, kept, left)
            case Requeued():
                handover = for_another_turn(kept, left)
        training.output.stop()
        try:
            become(handover, training.process_env)
        except OSError as error:
            raise CannotGoOn(training.name, error.strerror or str(error)) from error

    def _moved(self, handover: Handover, moved: Moved) -> Handover:
        claim = HeldClaim(moved.to.claim.id, moved.to.fds[0])
        start = replace(handover, path=list(sys.path), resumes=True, repeats=False, claim=claim)
        known = another_fit(self.training, moved.to)
        return start if known is None else replace(start, fit=known.fit, needed=known.needed, why=known.why)
