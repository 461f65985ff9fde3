"""A training whose main thread and disk are the test's own, and which is asked to be saved."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus

from jupyter_gpufit.errors import CannotSave
from jupyter_gpufit.jobs.events import CouldNotSave, Saved, Why
from jupyter_gpufit.jobs.record import LastCheckpoint
from jupyter_gpufit.testing import fake_device, fake_grant
from jupyter_gpufit.train import Moved
from jupyter_gpufit.worker.main_thread import MainThread
from jupyter_gpufit.worker.save_wish import Leave
from jupyter_gpufit.worker.saving import Durable, Saver

THERE = Moved(fake_grant(fake_device("GPU-there", label="1")))


async def until(reached: Callable[[], bool]) -> None:
    with anyio.fail_after(300):
        while not reached():  # noqa: ASYNC110 - what another thread does sets no event of ours
            await anyio.sleep(0.001)


@dataclass
class Disk:
    """Saves as it is told to."""

    refuses: list[Exception] = field(default_factory=list)  # at the next safe points
    wanted: bool = False
    prepared: int = 0
    unprepared: Exception | None = None  # what `prepare` fails with
    ready: threading.Event = field(default_factory=threading.Event)  # what `prepare` makes, for whoever waits for it
    makes: bool = False  # whether `prepare` waits until it is
    writing: list[Future[Durable]] = field(default_factory=list)
    whys: list[Why] = field(default_factory=list)
    looks: list[bool] = field(default_factory=list)  # whether each was patient
    stands_in_library: bool = False
    doubtful: bool = False

    def prepare(self) -> None:
        self.prepared += 1
        if self.unprepared is not None:
            raise self.unprepared
        if self.makes:
            self.ready.wait(60)

    def in_doubt(self) -> bool:
        return self.doubtful

    def look(self, *, patient: bool) -> None:
        self.looks.append(patient)
        if self.stands_in_library and patient:
            raise CannotSave((("self of acquire()", "a lock"),), passing=True)

    def want(self, wanted: bool) -> None:
        self.wanted = wanted

    def save(self, why: Why) -> tuple[int, str, Future[Durable]]:
        if self.refuses:
            raise self.refuses.pop(0)
        self.whys.append(why)
        self.writing.append(Future())
        return 7 * len(self.writing), "line 2 of the cell", self.writing[-1]


@dataclass
class Stage:
    """A training whose main thread is the test's own."""

    disk: Disk
    saver: Saver
    told: list[Saved | CouldNotSave]
    last: list[LastCheckpoint | None]
    said: list[str]
    changed: anyio.Event
    left: list[Leave] = field(default_factory=list)
    gone_on: list[bool] = field(default_factory=list)

    async def until_wanted(self) -> None:
        await until(lambda: self.disk.wanted)

    async def safe_point(self) -> None:
        """The main thread comes to one, and goes on; or it stands there."""
        await self.until_wanted()
        reaching = threading.Thread(target=self._reach, daemon=True)  # after a release it stands there for ever
        reaching.start()
        await anyio.to_thread.run_sync(reaching.join, 0.2)

    def _reach(self) -> None:
        self.saver.at_safe_point()
        self.gone_on.append(True)

    async def durable(self) -> None:
        before = len(self.told)
        self.disk.writing[-1].set_result(Durable("000001-000001", 100))
        await self.until_told(before + 1)

    async def until_told(self, count: int) -> None:
        with anyio.fail_after(300):
            while len(self.told) < count:
                self.changed = anyio.Event()
                await self.changed.wait()


class AnyThread(MainThread):
    """Takes whichever thread comes for the main one."""

    def is_here(self) -> bool:
        return True

    def ours(self):  # type: ignore[no-untyped-def]
        from contextlib import nullcontext

        return nullcontext()


@asynccontextmanager
async def training(disk: Disk | None = None, every: float = 0.0) -> AsyncIterator[Stage]:
    disk = disk or Disk()
    told: list[Saved | CouldNotSave] = []
    newest: list[LastCheckpoint | None] = []
    said: list[str] = []

    def settled(event: Saved | CouldNotSave, last: LastCheckpoint | None) -> None:
        told.append(event)
        newest.append(last)
        stage.changed.set()

    saver = Saver(disk, AnyThread(), settled, lambda why, words: said.append(words), defects.append)
    stage = Stage(disk, saver, told, newest, said, anyio.Event())

    async def serve(*, task_status: TaskStatus[None]) -> None:
        stage.left.append(await saver.serve(every, task_status=task_status))

    async with anyio.create_task_group() as group:
        await group.start(serve)
        yield stage
        group.cancel_scope.cancel()
    for future in disk.writing:
        future.cancel()


defects: list[Exception] = []
