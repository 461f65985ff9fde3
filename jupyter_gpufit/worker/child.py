"""The worker: one process for one job's whole life, which estimates, queues, claims and trains itself.

Its main thread runs the user's code; a second thread runs `train` and answers the control socket, so that a front is
heard while the cell blocks. Start reading at `Worker._life`.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import anyio

from ..actions.stop import is_being_stopped
from ..errors import GpufitError, LeavesAlready, NotNow, first_of
from ..estimate.tracing.trace import import_what_traces
from ..jobs.events import CouldNotSave, Failure, Note, ProgressMark, Saved, StateChange
from ..jobs.handover import KEPT, Handover, kept, receive
from ..jobs.job import Job
from ..jobs.live import Memory
from ..jobs.paths import JobPaths, socket_path
from ..jobs.protocol import Answer, WorkerVerb
from ..jobs.record import LastCheckpoint, read_record, unlock
from ..jobs.result import descriptors
from ..jobs.state import ENDED, LEFT
from ..settings import load_settings
from ..surroundings.travel import watch
from ..system.processes import reproducible
from ..system.runtime import runtime_of
from ..system.trust import check_trusted
from ..train import Finished, Released, train
from .account import Account
from .control import serve
from .legacy import Legacy
from .main_thread import MainThread

if TYPE_CHECKING:
    from .on_device import Meter
    from .telling import Telling

TICK = 1.0  # seconds between two marks of progress
LEAVE_PATIENCE = 10.0  # seconds for threads and libraries to end once everything is written


def main() -> None:
    """Import what every cell needs, wait for a job, and be its worker."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal or session that started the notebook may go
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a cell to interrupt
    if sys.argv[1] == KEPT:
        handover: Handover | None = kept(int(sys.argv[2]))
        _import_what_takes_long()
        watch.begin()
    else:
        channel = socket.socket(fileno=int(sys.argv[1]))
        _import_what_takes_long()
        watch.begin()
        for prepare in _what_can_wait():
            if not select.select([channel], [], [], 0)[0]:  # a spare, for which nobody waits
                prepare()
        handover = receive(channel)
        channel.close()
    if handover is not None:
        process_env = dict(os.environ)
        _take_place(handover)
        Worker(handover, process_env).work()


def _import_what_takes_long() -> None:
    import torch

    from ..snapshot import restore, take
    from . import machine, shell

    assert torch and machine and shell and restore and take


def _what_can_wait() -> list[Callable[[], None]]:
    from .interrupted import make_ready

    return [import_what_traces, make_ready] if _estimates() else [make_ready]


def _estimates() -> bool:
    try:
        return load_settings().estimate_limit > 0
    except GpufitError:
        return False  # it is said once there is a job to say it of


def _take_place(handover: Handover) -> None:
    """Stand where the notebook stands: its directory, import path and environment."""
    log = os.open(JobPaths(Path(handover.job_root)).log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    os.environ.clear()
    os.environ.update(reproducible(handover.env))
    sys.path[:] = handover.path
    os.chdir(handover.cwd)


class Worker:
    """Everything this process holds for its job; what a front may ask of it is control.Controlled."""

    def __init__(self, handover: Handover, process_env: Mapping[str, str]) -> None:
        from .machine import WorkerMachine
        from .shell import WorkerShell
        from .steps import StepCounter

        self.settings = load_settings()
        self.paths = JobPaths(Path(handover.job_root))
        check_trusted(self.paths.job)  # its text is about to be executed
        self.job = Job.from_json(self.paths.job.read_text())
        before = read_record(self.paths)
        steps = StepCounter(before.checkpoint.step if handover.resumes and before.checkpoint else 0)
        self.account = Account(
            self.paths,
            self.settings.journal_limit,
            before,
            lambda: steps.step,
            moved_here=handover.claim is not None,
        )
        self._lock = handover.lock
        os.register_at_fork(after_in_child=self._let_go_of_lock)
        self.main = MainThread()
        self.machine = WorkerMachine(
            settings=self.settings,
            paths=self.paths,
            handover=handover,
            epoch=self.account.record.epoch,
            process_env=process_env,
            main=self.main,
            output=self.account.output,
            shell=WorkerShell.begin(self.account.output.put),
            settled=self._settled,
            steps=steps,
        )
        self._given_up: Finished | Released = self._never_began
        if handover.interrupted or (handover.claim is not None and is_being_stopped(self.paths)):
            self.main.interrupt_at_once()  # what nobody could hear while this image began
        self._legacy = Legacy(self.account, self.paths)

    @property
    def _never_began(self) -> Finished:
        return Finished("stopped", f"stopped before it {'went on' if self.machine.handover.resumes else 'began'}")

    def _let_go_of_lock(self) -> None:
        """In a forked child, with which the job would look alive for as long as that lives."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def work(self) -> None:
        self.account.output.start()
        faulthandler.enable(self.account.output.log)  # a crash in compiled code leaves its last words there
        control = threading.Thread(target=self._control, name="gpufit-control", daemon=True)
        control.start()
        self.main.serve()
        control.join()
        self.account.close()
        # What the cell left to be done at exit (open files, atexit, its child processes) is done now, but not for ever.
        # A timer thread would do for neither: the interpreter waits for threads first.
        faulthandler.dump_traceback_later(LEAVE_PATIENCE, exit=True, file=2)

    # The control thread ---------------------------------------------------------------------------------------------

    def _control(self) -> None:
        try:
            if isinstance(anyio.run(self._life), Released):
                self._leave_at_once()
        except GpufitError as error:
            self._end(self._refused(error))
        except BaseException:
            # The outermost frame of this thread: a defect of ours must not leave a job that looks alive.
            traceback.print_exc(file=self.account.output.log)
            self._end(Finished("failed", f"jupyter_gpufit itself failed; see {self.paths.log}"))
        finally:
            if self.main.busy:
                self._vanish()
            self.main.leave()

    def _vanish(self) -> NoReturn:
        """End with the cell still in the main thread: its claim is given back, and nobody may compute without one."""
        try:
            self.account.close()
        finally:
            os._exit(1)

    def _leave_at_once(self) -> None:
        """Unwound, the cell's `finally` blocks would act on files with which the resumed job goes on."""
        self.account.close()
        os._exit(0)

    async def _life(self) -> Finished | Released:
        self._before_the_cell = anyio.CancelScope()
        self._legacy.begin()
        path, remark = socket_path(self.settings, self.job.id), runtime_of(self.settings).remark
        if remark:
            self.account.output.put(Note(remark, once=True))
        async with anyio.create_task_group() as group:
            listening = anyio.Event()
            group.start_soon(lambda: serve(path, self, self._legacy.followers, started=listening))
            await listening.wait()
            self.account.reachable(str(path))
            group.start_soon(self._mark_progress)
            outcome = await self._train()
            self._end(outcome)
            while isinstance(outcome, Released) and await self._is_woken():
                self._legacy.begin()
                outcome = await self._train()
                self._end(outcome)
            await self._legacy.hand_over(self.machine.reply)
            group.cancel_scope.cancel()
        return outcome

    async def _train(self) -> Finished | Released:
        finished: Finished | Released = self._given_up
        self._before_the_cell = anyio.CancelScope()
        try:
            with self._before_the_cell:
                finished = await train(self.job, self.machine, self.account.report)
            if self._before_the_cell.cancelled_caught:
                finished = self._given_up
        except* Exception as group:
            finished = self._how_it_ended(group)
        return finished

    def _how_it_ended(self, group: ExceptionGroup[Exception]) -> Finished:
        """What cannot be done once the cell has ended takes nothing away from what it made."""
        if self.machine.ended is not None:
            traceback.print_exception(group, file=self.account.output.log)
            return self.machine.ended
        refusals, defects = group.split(GpufitError)
        if defects is not None:
            raise defects
        assert refusals is not None
        return self._refused(first_of(refusals))

    async def _is_woken(self) -> bool:
        """Once it is released: whether its process was suspended, and somebody resumes it."""
        self._given_up = self._never_began
        rest = self.machine.rest
        return rest is not None and await rest.until_woken(self.machine)

    def _refused(self, error: GpufitError) -> Finished:
        """The cell did not run, for a reason that the user can change."""
        self.account.output.put(Failure(type(error).__name__, str(error), (f"{type(error).__name__}: {error}",)))
        return Finished("failed", str(error))

    async def _mark_progress(self) -> None:
        from .telling import Telling

        last, telling = (0, 0), Telling(self.account.output.log, self.machine.points)
        said = False
        while True:
            await anyio.sleep(TICK)
            meter = self.machine.meter
            if meter is None or not self.machine.running:
                continue
            try:
                last = self._mark(meter, telling, last)
            except OSError:  # the cell has all descriptors in use, say: it trains on, and the next look may do
                if not said:
                    traceback.print_exc(file=self.account.output.log)
                said = True

    def _mark(self, meter: Meter, telling: Telling, last: tuple[int, int]) -> tuple[int, int]:
        now = self.machine.steps.step, meter.used()
        self.machine.pace.take(time.monotonic(), now[0])
        memory = Memory(used=now[1], peak=meter.peak(), estimate=self.machine.handover.foreseen)
        live, metrics = telling.look(now[0], self.machine.pace, memory)
        if metrics is not None:
            self.account.output.put(metrics)
        if now != last:
            self.account.output.put(ProgressMark(*now, memory.peak, self.machine.pace.words()))
        self.account.far(now[0], live)
        return now

    def _mark_last_progress(self) -> None:
        if (meter := self.machine.meter) is not None and not self.machine.silent:
            with suppress(OSError):
                self.account.output.put(ProgressMark(self.machine.steps.step, meter.used(), meter.peak()))

    def _settled(self, event: Saved | CouldNotSave, last: LastCheckpoint | None) -> None:
        """A checkpoint is durable, or came to nothing; unless it leaves, the job runs on."""
        self.account.saved(event, last)
        record = self.account.record
        leaves = isinstance(event, Saved) and event.why in ("release", "move")
        if record.state in ("saving", "moving") and not leaves and not self.machine.saver.leaving:
            self.account.report(StateChange("running", device=record.device))

    def _end(self, outcome: Finished | Released) -> None:
        self._mark_last_progress()
        if isinstance(outcome, Finished):
            self.account.end(outcome.state, outcome.reason)
        else:
            self.account.end("released", outcome.reason, suspended=self.machine.rest is not None)
            if self.machine.rest is not None:
                unlock(self._lock)  # for everybody else it is a released job like any other
        self._legacy.ended()

    # What a front may ask: control.Controlled -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return asdict(self.account.record)

    def interrupt(self) -> None:
        # One that leaves stands still: the interrupt strikes where it goes on, and nothing is lost by either.
        if self.machine.running or self.account.record.state in ("saving", "moving"):
            self.main.interrupt()
        else:
            self._before_the_cell.cancel()

    def end(self) -> None:
        """End at once, also when the main thread is deep in C code that no interrupt reaches."""
        if self.account.record.state not in LEFT:
            self._end(Finished("stopped", "ended on request"))
        os._exit(1)

    async def ask(self, verb: WorkerVerb, to: str) -> Answer:
        """Have the job saved: what will happen, or why not."""
        from . import wishes, woken

        if verb in ("resume", "dismiss"):
            return woken.answer(self.machine, self.account, self._lock, verb, to)
        began = {"epoch": self.account.record.epoch, "after": self.account.journal.seq}
        try:
            if self.machine.running and self.machine.saver.is_open:
                return await wishes.answer(self.machine, verb, to, began)
            return self._ask_before(verb)
        except (GpufitError, OSError) as error:
            leaves = {"leaves": True} if isinstance(error, LeavesAlready) else {}
            return Answer(False, error.why if isinstance(error, NotNow) else str(error), leaves)

    def defect(self, error: Exception) -> None:
        traceback.print_exception(error, file=self.account.output.log)

    def answered(self) -> None:
        if self.machine.rest is not None:
            self.machine.rest.stir()
        if isinstance(self._given_up, Released):
            self._before_the_cell.cancel()

    def _ask_before(self, verb: WorkerVerb) -> Answer:
        name, state = self.job.name, self.account.record.state
        if verb == "release" and self.account.record.checkpoint is not None and state not in ENDED:
            from .wishes import released

            self._given_up = released(name, self.account.record.checkpoint.step)
            return Answer(True, f"{name} gives up its place; its checkpoint stays.")
        raise NotNow(name, f"it is {state}, so there is nothing to save. To end it: gpufit stop {name}")

    def result(self) -> tuple[list[int], list[int]] | None:
        return None if self.machine.reply is None else descriptors(self.machine.reply)

    def collected(self) -> None:
        self._legacy.collected()

    async def outcome(self) -> dict[str, Any]:
        return await self._legacy.outcome()
