"""The process of a job that is a deployed model: from the queue to its end. Start reading at `Deployment._life`.

It uses no device itself: an instance does, which it starts with the claim's lock and ends to leave the device
(`places`). So this process, whose socket the callers know, stays, wherever the model runs.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel

from ..errors import GpufitError, LeavesAlready, NotNow, first_of
from ..jobs.account import JobAccount
from ..jobs.control import Followers, serve
from ..jobs.events import Failure, Note, StateChange
from ..jobs.handover import Handover, receive
from ..jobs.job import Job
from ..jobs.live import CallFigures, Live, Memory, Progress
from ..jobs.paths import JobPaths, calls_path, socket_path
from ..jobs.protocol import Answer, Question
from ..jobs.record import read_record
from ..jobs.state import State
from ..models.taken import models_from_json
from ..settings import load_settings
from ..system.runtime import runtime_of
from ..system.scope import leave
from ..system.trust import check_trusted
from ..units import where_words
from .desk import Desk
from .instance import allow_many_files
from .places import Place, Places
from .standing import StandingInstance

EVERY = 1.0  # seconds between two looks at the figures
LAST_WORD = 5.0  # seconds that those who follow have to hear of the end


def main() -> None:
    """Wait for a job, and be its process."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the terminal or session that started it may go
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel = socket.socket(fileno=int(sys.argv[1]))
    handover = receive(channel)
    channel.close()
    if handover is None:
        return
    log = os.open(JobPaths(Path(handover.job_root)).log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for standard in (1, 2):
        os.dup2(log, standard)
    os.close(log)
    os.environ.clear()
    os.environ.update(handover.env)
    os.chdir("/")  # it keeps no file system from being unmounted
    allow_many_files()
    Deployment(handover).work()


@dataclass(frozen=True)
class _End:
    """How it leaves."""

    state: State
    reason: str


class Deployment:
    """Everything this process holds for its job; what a front may ask of it is jobs.control.Controlled."""

    def __init__(self, handover: Handover) -> None:
        self.settings = load_settings()
        self.paths = JobPaths(Path(handover.job_root))
        for path in (self.paths.job, self.paths.model):
            check_trusted(path)
        self.job = Job.from_json(self.paths.job.read_text())
        assert self.job.model is not None
        self.model = self.job.model
        self.handover = handover
        self.taken = models_from_json(self.paths.model.read_text())
        self.desk = Desk(
            [one.signature for one in self.taken.values()], self.model.rows, self.model.waiting, self._instance_died
        )
        self.account = JobAccount(
            self.paths,
            self.settings.journal_limit,
            replace(read_record(self.paths), kind="model"),
            lambda: self.desk.figures.calls,
            state="queued",
        )
        self._left = anyio.Event()  # one of those who follow
        self._followers = Followers(on_change=lambda: self._left.set())
        self.places = Places(self.settings, self.paths, self.job, handover, self.account, self.desk)
        self._end: _End | None = None
        self._lock = handover.lock  # held as long as this process lives

    def work(self) -> None:
        leave(self.job.id, self.settings.own_scope)  # before there are instances, who would stay behind
        try:
            anyio.run(self._life)
        except BaseException:  # the outermost frame: a defect of ours must not leave a job that looks alive
            traceback.print_exc()
            self.account.end("failed", f"jupyter_gpufit itself failed; see {self.paths.log}")
        self.account.close()

    async def _life(self) -> None:
        self._ending = anyio.Event()
        self._before = anyio.CancelScope()
        self._token = anyio.lowlevel.current_token()
        path, remark = socket_path(self.settings, self.job.id), runtime_of(self.settings).remark
        if remark:
            self.account.put(Note(remark, once=True))
        async with anyio.create_task_group() as group:
            self._group = group
            listening = anyio.Event()
            group.start_soon(lambda: serve(path, self, self._followers, started=listening))
            await listening.wait()
            self.account.reachable(str(path))
            try:
                end = await self._serve()
            except* GpufitError as refused:
                error = first_of(refused)
                self.account.put(Failure(type(error).__name__, str(error), (f"{type(error).__name__}: {error}",)))
                end = _End("failed", str(error))
            self.account.end(end.state, end.reason)
            await self._until_heard()
            group.cancel_scope.cancel()

    async def _serve(self) -> _End:
        """Queue, claim, load, and answer calls until it is to end."""
        self.account.report(StateChange("queued", self.handover.why))
        address = calls_path(self.settings, self.job.id)
        try:
            with self._before:
                await self.places.begin(self._group)
            if self.places.here is not None:
                self.desk.open(address)
                await self._until_end(self.places.here)
        finally:
            with anyio.CancelScope(shield=True):
                address.unlink(missing_ok=True)
                await self.places.leave(answered=self._end is not None and self._end.state == "released")
        assert self._end is not None
        return self._end

    async def _until_end(self, place: Place) -> None:
        await self.places.answer_here()
        self._tell()  # first: whoever sees it run sees how
        self.account.report(StateChange("running", device=place.instance.label))
        async with anyio.create_task_group() as group:
            self._moves = group
            group.start_soon(self._tell_often)
            await self._ending.wait()
            group.cancel_scope.cancel()

    # What happens --------------------------------------------------------------------------------------------------

    def _instance_died(self, instance: StandingInstance) -> None:
        """In the desk's thread."""
        anyio.from_thread.run_sync(self._group.start_soon, self._mourn, instance, token=self._token)

    async def _mourn(self, instance: StandingInstance) -> None:
        how = await instance.end()
        self._finish("failed", f"the process on {where_words(instance.label)} ended unexpectedly: {how}")

    def _finish(self, state: State, reason: str) -> None:
        """Have it end; what was said first holds."""
        self._end = self._end or _End(state, reason)
        self._ending.set()
        self._before.cancel()

    async def _tell_often(self) -> None:
        while True:
            await anyio.sleep(EVERY)
            self._tell()

    def _tell(self) -> None:
        """How it fares."""
        figures, place = self.desk.figures, self.places.here
        loaded = place.instance.loaded if place is not None else None
        took = loaded.took if loaded is not None else 0
        memory = Memory(used=took, peak=took, estimate=self.handover.foreseen) if took else None
        per_second = figures.per_second(anyio.current_time())
        progress = Progress(step=figures.calls, per_second=per_second)
        p50, p99 = figures.quantiles() or (None, None)
        calls = CallFigures(
            per_second=per_second,
            p50=p50,
            p99=p99,
            waiting=self.desk.waiting,
            refused=self.desk.refused,
            late=self.desk.late,
            rows=figures.rows,
            limit=place.granted.bytes if place is not None else None,
        )
        self.account.far(figures.calls, Live(progress=progress, memory=memory, calls=calls))

    async def _until_heard(self) -> None:
        """A front that follows reads the end in the journal; it is only not cut off in the middle of a word."""
        with anyio.move_on_after(LAST_WORD):
            while self._followers.count:
                self._left = anyio.Event()
                await self._left.wait()

    # What a front may ask: jobs.control.Controlled -----------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return asdict(self.account.record)

    def interrupt(self) -> None:
        self._finish("stopped", "stopped on request")

    def end(self) -> None:
        """At once: the instance ends with this process."""
        self.account.end("stopped", "ended on request")
        os._exit(1)

    def result(self) -> tuple[list[int], list[int]] | None:
        return None

    def collected(self) -> None:
        pass

    def answered(self) -> None:
        pass

    def defect(self, error: Exception) -> None:
        traceback.print_exception(error)

    async def outcome(self) -> dict[str, Any]:
        await self._ending.wait()
        return {}

    async def ask(self, verb: Question, to: str) -> Answer:
        """Have it leave or go elsewhere: what will happen, or why not."""
        record, name = self.account.record, self.job.name
        if verb == "dismiss":
            return Answer(False, "it is not suspended")
        if verb == "widget":
            return Answer(False, "a deployed model has no widgets")
        if why := record.why_not(verb):
            return Answer(False, why)
        if self._ending.is_set() or (self.places.moving and verb == "move"):
            return Answer(False, str(LeavesAlready(name)), {"leaves": True})
        data: dict[str, Any] = {"epoch": record.epoch, "after": self.account.journal.seq}
        try:
            if verb == "move":
                number, there = await self.places.move(to, self._moves, self._ending)
                words = f"{name} is loaded on {where_words(there)}, and moves there as soon as it can answer."
                return Answer(True, words, {**data, "number": number})
        except (GpufitError, OSError) as error:
            leaves = {"leaves": True} if isinstance(error, LeavesAlready) else {}
            return Answer(False, error.why if isinstance(error, NotNow) else str(error), leaves)
        self.desk.leave(f"it is released. To have it back: %gpufit resume {name}")
        self._finish("released", f"released after {self.desk.figures.calls:,} calls; `%gpufit resume {name}` goes on")
        return Answer(True, f"{name} answers what waits, and leaves its device.", data)
