"""The worker: one process for one job's whole life, which estimates, queues, claims and trains itself.

Its main thread runs the user's code; a second thread runs `train` and answers the control socket, so that a front is
heard while the cell blocks. Start reading at `Worker._life`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import anyio

from .. import __version__
from ..errors import GpufitError
from ..job import ENDED, Job, JobPaths, State, check_trusted
from ..process import ProcessId
from ..settings import load_settings
from ..train import Finished, train
from .control import Followers, serve, socket_path
from .handover import Handover, receive
from .journal import Journal
from .main_thread import MainThread
from .messages import Event, Failure, Note, Progress, StateChange, Text
from .output import Text as Written
from .record import Record, next_epoch, write_record
from .result import descriptors, save

TICK = 1.0  # seconds between two marks of progress
COLLECT_PATIENCE = 60.0  # seconds that a connected front has to take the result before it goes to the disk
LEAVE_PATIENCE = 10.0  # seconds for threads and libraries to end once everything is written


def main() -> None:
    """Import what every cell needs, wait for a job, and be its worker."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal or session that started the notebook may go
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # until there is a cell to interrupt
    channel = socket.socket(fileno=int(sys.argv[1]))
    _import_what_takes_long()
    handover = receive(channel)
    channel.close()
    if handover is not None:
        _take_place(handover)
        Worker(handover).work()


def _import_what_takes_long() -> None:
    import torch

    from . import machine, shell

    assert torch and machine and shell


def _take_place(handover: Handover) -> None:
    """Stand where the notebook stands: its directory, import path and environment."""
    log = os.open(JobPaths(Path(handover.job_root)).log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    os.environ.clear()
    os.environ.update(handover.env)
    sys.path[:] = handover.path
    os.chdir(handover.cwd)


class Worker:
    """Everything this process holds for its job; what a front may ask of it is control.Controlled."""

    def __init__(self, handover: Handover) -> None:
        from ..graph import Memory
        from .machine import WorkerMachine
        from .output import Output
        from .shell import WorkerShell

        self.settings = load_settings()
        self.paths = JobPaths(Path(handover.job_root))
        check_trusted(self.paths.job)  # its text is about to be executed
        self.job = Job.from_json(self.paths.job.read_text())
        self.journal = Journal(self.paths.journal, self.settings.journal_limit)
        self.output = Output(self._emit)
        self.record = Record(
            state="estimating",
            since=time.time(),
            epoch=next_epoch(self.paths),
            worker=ProcessId.of(os.getpid()),
            version=__version__,
        )
        self.main = MainThread()
        self.machine = WorkerMachine(
            settings=self.settings,
            paths=self.paths,
            memory=Memory(handover.memory),
            cell_number=handover.cell_number,
            main=self.main,
            output=self.output,
            shell=WorkerShell.begin(self.output.put),
        )
        self._followers = Followers(on_change=self._wake)
        self._collected = False

    def work(self) -> None:
        self.output.start()
        faulthandler.enable(self.output.log)  # a crash in compiled code leaves its last words there
        control = threading.Thread(target=self._control, name="gpufit-control", daemon=True)
        control.start()
        self.main.serve()
        control.join()
        self.output.stop()
        self.journal.close()
        # What the cell left to be done at exit (open files, atexit, its child processes) is done now, but not for ever.
        # A timer thread would do for neither: the interpreter waits for threads first.
        faulthandler.dump_traceback_later(LEAVE_PATIENCE, exit=True, file=2)

    # The control thread ---------------------------------------------------------------------------------------------

    def _control(self) -> None:
        try:
            anyio.run(self._life)
        except GpufitError as error:
            self._end(self._refused(error))
        except BaseException:
            # The outermost frame of this thread: a defect of ours must not leave a job that looks alive.
            traceback.print_exc(file=self.output.log)
            self._end(Finished("failed", f"jupyter_gpufit itself failed; see {self.paths.log}"))
        finally:
            self.main.leave()

    async def _life(self) -> None:
        self._before_the_cell = anyio.CancelScope()
        self._woken = anyio.Event()
        path = socket_path(self.settings, self.job.id)
        async with anyio.create_task_group() as group:
            listening = anyio.Event()
            group.start_soon(lambda: serve(path, self, self._followers, started=listening))
            await listening.wait()
            self.record = replace(self.record, socket=str(path))
            group.start_soon(self._mark_progress)
            self._end(await self._train())
            await self._give_result()
            group.cancel_scope.cancel()

    async def _train(self) -> Finished:
        finished = Finished("stopped", "stopped before it began")
        try:
            with self._before_the_cell:
                finished = await train(self.job, self.machine, self._report)
        except* GpufitError as group:
            finished = self._refused(_first(group))
        return finished

    def _refused(self, error: GpufitError) -> Finished:
        """The cell did not run, for a reason that the user can change."""
        self.output.put(Failure(type(error).__name__, str(error), (f"{type(error).__name__}: {error}",)))
        return Finished("failed", str(error))

    async def _mark_progress(self) -> None:
        last = 0, 0
        while True:
            await anyio.sleep(TICK)
            meter = self.machine.meter
            if meter is None or not self.machine.running:
                continue
            now = self.machine.steps.step, meter.used()
            self.machine.pace.take(time.monotonic(), now[0])
            if now != last:
                self.output.put(Progress(*now, meter.peak(), self.machine.pace.words()))
                self._write_record(replace(self.record, step=now[0]))
                last = now

    def _mark_last_progress(self) -> None:
        if (meter := self.machine.meter) is not None:
            self.output.put(Progress(self.machine.steps.step, meter.used(), meter.peak()))

    async def _give_result(self) -> None:
        """Wait until the notebook has taken the variables; if none does, put them on the disk for a later one."""
        reply = self.machine.reply
        if reply is None:
            return
        with anyio.move_on_after(COLLECT_PATIENCE):
            while self._followers.count and not self._collected:
                self._woken = anyio.Event()
                await self._woken.wait()
        if self._collected:
            return
        try:
            await anyio.to_thread.run_sync(save, reply, self.paths)
        except OSError as error:
            why = error.strerror or str(error)
            self.journal.append(
                [Note(f"The variables cannot be saved ({why}); the worker keeps them until collected.")]
            )
            while not self._collected:
                self._woken = anyio.Event()
                await self._woken.wait()

    def _wake(self) -> None:
        self._woken.set()

    # What is said ---------------------------------------------------------------------------------------------------

    def _emit(self, events: Sequence[object]) -> None:
        self.journal.append([Text(*event) if isinstance(event, Written) else cast(Event, event) for event in events])

    def _report(self, change: StateChange) -> None:
        change = replace(change, epoch=self.record.epoch)
        self.output.put(change)
        self._write_record(self._at(change.state, change.reason, change.device))

    def _end(self, finished: Finished) -> None:
        self._mark_last_progress()
        self.output.flush()
        record = self._at(finished.state, finished.reason, "")
        self._write_record(record, final=True)
        self.journal.append_final(StateChange(finished.state, finished.reason, epoch=self.record.epoch))

    def _at(self, state: State, reason: str, device: str) -> Record:
        step = self.machine.steps.step
        return replace(self.record, state=state, since=time.time(), reason=reason, device=device, step=step)

    def _write_record(self, record: Record, *, final: bool = False) -> None:
        if self.record.state in ENDED:
            return
        self.record = record
        try:
            write_record(self.paths, record)
        except OSError:
            if final:
                self.journal.give_up_reserve()
                write_record(self.paths, record)
            # else: the disk is full; the journal counts what is lost, and the next state may find room

    # What a front may ask: control.Controlled -----------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return asdict(self.record)

    def interrupt(self) -> None:
        if self.machine.running:
            self.main.interrupt()
        else:
            self._before_the_cell.cancel()

    def end(self) -> None:
        """End at once, also when the main thread is deep in C code that no interrupt reaches."""
        if self.record.state not in ENDED:
            self._end(Finished("stopped", "ended on request"))
        os._exit(1)

    def result(self) -> tuple[list[int], list[int]] | None:
        return None if self.machine.reply is None else descriptors(self.machine.reply)

    def collected(self) -> None:
        self._collected = True
        self._wake()


def _first(group: BaseExceptionGroup[GpufitError]) -> GpufitError:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
