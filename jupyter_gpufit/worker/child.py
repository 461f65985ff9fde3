"""The worker: one process for one job's whole life, which estimates, queues, claims and trains itself.

Its main thread runs the user's code; a second thread runs `train` and answers the control socket, so that a front is
heard while the cell blocks. Start reading at `Worker._life`.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.lowlevel

from ..actions.stop import is_being_stopped
from ..errors import GpufitError, LeavesAlready, NotNow, first_of
from ..estimate.tracing.trace import import_what_traces
from ..jobs.control import serve
from ..jobs.events import CouldNotSave, Failure, Note, Saved, StateChange
from ..jobs.handover import FORKS, KEPT, Handover, kept, receive
from ..jobs.job import Job
from ..jobs.paths import JobPaths, socket_path
from ..jobs.protocol import Answer, Question
from ..jobs.record import LastCheckpoint, read_record, unlock
from ..jobs.result import descriptors, owe
from ..lab.happenings import note_happening
from ..settings import load_settings
from ..surroundings.travel import watch
from ..system import ending
from ..system.collecting import for_good
from ..system.processes import forked_die_with_us, reproducible
from ..system.runtime import runtime_of
from ..system.scope import leave
from ..system.trust import check_trusted
from ..train import Finished, Released, train
from .account import Account
from .legacy import Legacy
from .lifecycle import Asked, Close, Event, Interrupt, Life, Over, Reached, Settled, Tell, after, told
from .main_thread import MainThread

LEAVE_PATIENCE = 10.0  # seconds for threads and libraries to end once everything is written


def main() -> None:
    """Import what every cell needs, wait for a job, and be its worker; or the spare, which forks those who are.

    What is there before the job is frozen: a million objects that no search for garbage of the training looks through
    again, and that nobody takes apart at the end, for half a second in which the device is not free yet.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal or session that started the notebook may go
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a cell to interrupt
    handover = kept(int(sys.argv[2])) if sys.argv[1] == KEPT else None
    with for_good():
        _import_what_takes_long()
        watch.begin()
    gc.freeze()
    handover = handover or _given(sys.argv)
    if handover is not None:
        process_env = dict(os.environ)
        _take_place(handover)
        Worker(handover, process_env).work()


def _given(arguments: Sequence[str]) -> Handover | None:
    """Wait for the job, which comes from a kernel; None: there is none."""
    channel: socket.socket | None = socket.socket(fileno=int(arguments[-1]))
    assert channel is not None
    prepare = _what_can_wait()
    if arguments[1] == FORKS:
        from .forks import Forks  # which imports torch

        forks = Forks(channel, prepare)
        if (channel := forks.next()) is None:
            return None
    while prepare and not select.select([channel], [], [], 0)[0]:  # nobody waits yet
        prepare.pop(0)()
    gc.freeze()
    with channel:
        return receive(channel)


def _import_what_takes_long() -> None:
    import torch

    from ..snapshot import restore, take
    from . import machine, shell

    assert torch and machine and shell and restore and take


def _what_can_wait() -> list[Callable[[], object]]:
    from ..program import read_ahead
    from .tracebacks import make_ready

    # The last: Python would look through all that is here once more while the cell starts.
    traces: list[Callable[[], object]] = [import_what_traces] if _estimates() else []
    return [_import_what_every_cell_comes_to, *traces, make_ready, read_ahead, gc.collect]


def _import_what_every_cell_comes_to() -> None:
    """What a worker whose cell is waited for imports and makes where it is first needed."""
    import torch._dynamo  # an optimizer's first step needs it, and half the time of importing torch

    from ..cuda import slot
    from ..graph import kind
    from ..snapshot import pickler
    from . import vitals
    from .shell import WorkerShell

    assert slot and torch and vitals
    kind.import_families()
    pickler.import_families()
    WorkerShell.prepare()
    anyio.run(anyio.lowlevel.checkpoint)  # it imports its event loop only now


def _estimates() -> bool:
    try:
        return load_settings().estimate_limit > 0
    except GpufitError:
        return False  # it is said once there is a job to say it of


def _take_place(handover: Handover) -> None:
    """Stand where the notebook stands: its directory, import path, command line and environment."""
    log = os.open(JobPaths(Path(handover.job_root)).log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    os.environ.clear()
    os.environ.update(reproducible(handover.env))
    sys.path[:] = handover.path
    sys.argv[:] = handover.argv or sys.argv
    os.chdir(handover.cwd)


class Worker:
    """Everything this process holds for its job; what a front may ask of it is jobs.control.Controlled."""

    def __init__(self, handover: Handover, process_env: Mapping[str, str]) -> None:
        from .machine import WorkerMachine
        from .shell import WorkerShell
        from .steps import StepCounter
        from .training import Training

        self.settings = load_settings()
        self.paths = JobPaths(Path(handover.job_root))
        check_trusted(self.paths.job)  # its text is about to be executed
        self.job = Job.from_json(self.paths.job.read_text())
        before = read_record(self.paths)
        steps = StepCounter(before.checkpoint.step if handover.resumes and before.checkpoint else 0)
        life = Life("begun" if handover.claim is None else "arriving", resumes=handover.resumes)
        limit = self.settings.journal_limit
        self.account = Account(self.paths, limit, before, lambda: steps.step, state=told(life.phase))
        self._lock = handover.lock
        os.register_at_fork(after_in_child=self._let_go_of_lock)
        forked_die_with_us()
        self.main = MainThread()
        self.training = Training(
            name=self.job.name,
            settings=self.settings,
            paths=self.paths,
            life=life,
            take=self._take,
            handover=handover,
            epoch=self.account.record.epoch,
            process_env=process_env,
            output=self.account.output,
            shell=WorkerShell.begin(self.account.output.put),
            steps=steps,
        )
        self.machine = WorkerMachine(self.training, self.main, self._settled)
        if handover.interrupted or (handover.claim is not None and is_being_stopped(self.paths)):
            self.main.interrupt_at_once()  # what nobody could hear while this image began
        self._legacy = Legacy(self.account, self.paths)

    def _let_go_of_lock(self) -> None:
        """In a forked child, with which the job would look alive for as long as that lives."""
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def work(self) -> None:
        leave(self.job.id, self.settings.own_scope)  # before there are children, who would stay behind
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
        ending.end(self.training.shell.user_ns, [self.paths.root])

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
        from .vitals import watch, watch_device

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
            group.start_soon(watch, self.training, self.account, self.machine.points, self._legacy.followers)
            group.start_soon(watch_device, self.training, self.account)
            outcome = await self._train()
            self._end(outcome)
            while isinstance(outcome, Released) and await self._is_woken():
                self._legacy.begin()
                outcome = await self._train()
                self._end(outcome)
            await self._legacy.hand_over(self.training.reply)
            group.cancel_scope.cancel()
        return outcome

    async def _train(self) -> Finished | Released:
        outcome: Finished | Released | None = None
        self._before_the_cell = anyio.CancelScope()
        self._give_up()
        try:
            with self._before_the_cell:
                outcome = await train(self.job, self.machine, lambda change: self._take(Reached(change)))
        except* Exception as group:
            outcome = self._how_it_ended(group)
        outcome = outcome or self.training.life.given_up
        assert outcome is not None
        return outcome

    def _take(self, event: Event) -> None:
        """Have it happen: look into the table, and do what stands there."""
        self.training.life, effects = after(self.training.life, event)
        for effect in effects:
            match effect:
                case Tell(StateChange("running", "") as change):
                    self.account.report(replace(change, reason=self.training.way(change.device)))
                case Tell(change):
                    self.account.report(change)
                case Interrupt():
                    self.main.interrupt()
                case Close(state, reason, suspended):
                    if state == "done" and self.training.reply is not None:
                        owe(self.paths)
                    self.account.end(state, reason, suspended=suspended)

    def _give_up(self) -> None:
        """End what goes before the cell, if it was given up."""
        if self.training.life.given_up is not None:
            self._before_the_cell.cancel()

    def _how_it_ended(self, group: ExceptionGroup[Exception]) -> Finished:
        """What cannot be done once the cell has ended takes nothing away from what it made."""
        if self.training.ended is not None:
            traceback.print_exception(group, file=self.account.output.log)
            return self.training.ended
        refusals, defects = group.split(GpufitError)
        if defects is not None:
            raise defects
        assert refusals is not None
        return self._refused(first_of(refusals))

    async def _is_woken(self) -> bool:
        """Once it is released: whether its process was suspended, and somebody resumes it."""
        rest = self.machine.rest
        return rest is not None and await rest.until_woken(self.training)

    def _refused(self, error: GpufitError) -> Finished:
        """The cell did not run, for a reason that the user can change."""
        self.account.output.put(Failure(type(error).__name__, str(error), (f"{type(error).__name__}: {error}",)))
        return Finished("failed", str(error))

    def _settled(self, event: Saved | CouldNotSave, last: LastCheckpoint | None) -> None:
        """A checkpoint is durable, or came to nothing."""
        self.account.saved(event, last)
        if isinstance(event, Saved):
            self.training.saving_took = event.seconds
        if isinstance(event, Saved) and (held := self.training.held) is not None:
            note_happening(held.lab.path, "checkpoint", seconds=event.seconds, bytes=event.bytes)
        self._take(Settled(event.why, isinstance(event, Saved)))

    def _end(self, outcome: Finished | Released) -> None:
        from .vitals import mark_last

        if self.training.life.has_ended:
            return
        try:
            mark_last(self.training, self.account)
        except Exception:  # a defect of ours, which must not keep the job from ending
            traceback.print_exc(file=self.account.output.log)
        self._take(Over(outcome, suspended=self.machine.rest is not None))
        if self.training.life.phase == "resting":
            unlock(self._lock)  # for everybody else it is a released job like any other
        self._legacy.ended()

    # What a front may ask: jobs.control.Controlled --------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return asdict(self.account.record)

    def interrupt(self) -> None:
        self._take(Asked("interrupt"))
        self._give_up()

    def end(self) -> None:
        """End at once, also when the main thread is deep in C code that no interrupt reaches."""
        self._end(Finished("stopped", "ended on request"))
        os._exit(1)

    async def ask(self, verb: Question, to: str) -> Answer:
        """Have the job saved: what will happen, or why not."""
        from . import rest, wishes

        if verb == "widget":
            return self.training.shell.comms.hear(to)
        if verb == "resume" or verb == "dismiss":
            return rest.answer(self.training, self.machine.rest, self.account, self._lock, verb, to)
        try:
            account = self.account
            return await wishes.answer(self.training, self.machine.saver, verb, to, account.record, account.journal.seq)
        except (GpufitError, OSError) as error:
            leaves = {"leaves": True} if isinstance(error, LeavesAlready) else {}
            return Answer(False, error.why if isinstance(error, NotNow) else str(error), leaves)

    def defect(self, error: Exception) -> None:
        traceback.print_exception(error, file=self.account.output.log)

    def answered(self) -> None:
        if self.machine.rest is not None:
            self.machine.rest.stir(self.training)
        self._give_up()

    def result(self) -> tuple[list[int], list[int]] | None:
        return None if self.training.reply is None else descriptors(self.training.reply)

    def collected(self) -> None:
        self._legacy.collected()

    async def outcome(self) -> dict[str, Any]:
        return await self._legacy.outcome()
