"""Following a job from a front: its journal as it grows, an interrupt on its way, its end, and its variables."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.abc import TaskGroup

from ..errors import Unreachable, VersionDiffers, WorkerDied
from ..system.signals import name_of
from .client import Connection, connect
from .events import Entry, Event, Note, StateChange
from .job import Job
from .journal import JournalReader, decoded
from .paths import JobPaths
from .protocol import WorkerVerb
from .record import UNGIVEN, Record, read_record
from .result import given
from .state import ENDED, LEFT, OVER
from .watch import changes


class Show(Protocol):
    """Shows an event; `when` it was written (seconds since 1970), or now."""

    def __call__(self, event: Event, when: float | None = None) -> None: ...


Leaving = Callable[[], Awaitable[bool]]
Take = Callable[[list[int], list[int]], None]  # the descriptors of a result, and what they are


AGAIN = 0.2  # seconds between two tries to reach a worker that ends
CRASHES = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")


class Interrupts:
    """Ctrl-C, as often as it is pressed while a cell waits."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pressed = anyio.Event()
        self._count = 0

    def press(self) -> None:
        """To be called from a signal handler or another thread."""
        self._loop.call_soon_threadsafe(self._press)

    async def next(self) -> int:
        """Wait for the next press; how many there have been."""
        await self._pressed.wait()
        self._pressed = anyio.Event()
        return self._count

    def _press(self) -> None:
        self._count += 1
        self._pressed.set()


class Left(Exception):
    """The front is going away (its kernel restarts): the job goes on without it."""


async def follow(
    job: Job,
    paths: JobPaths,
    show: Show,
    *,
    after: int = 0,
    interrupts: Interrupts | None = None,
    leaving: Leaving | None = None,
    exit_code: Callable[[], int | None] = lambda: None,
    take: Take | None = None,
    on: bool = False,
) -> StateChange:
    """Show the job's events until its end; `take` then receives the descriptors of its result, if it is still there.

    A release is an end, too; or with `on` a pause, after which whoever resumes the job has it followed again.
    """
    async with AsyncExitStack() as stack, anyio.create_task_group() as group:
        followed = _Followed(job, paths, stack, group)
        if interrupts is not None:
            group.start_soon(_pass_on, followed, interrupts, leaving, show)
        end = await _until_end(followed, show, after, exit_code, on)
        if take is not None:
            await _take(followed, take, exit_code)
        group.cancel_scope.cancel()
    return end


async def _take(followed: _Followed, take: Take, exit_code: Callable[[], int | None]) -> None:
    """From the worker's memory; one that cannot be reached is waited for: as it ends, it puts the result on the disk.

    It says that the job is done before that, and on a busy machine it may be reached late, or not in time.
    """
    while True:
        if followed.connection is not None:
            with suppress(Unreachable):
                await _collect(followed, followed.connection, take)
                return
        record = read_record(followed.paths)
        if _is_lost_with_all(record):
            raise WorkerDied(followed.job.name, _how_it_died(exit_code(), record) + _way_on(followed.job, record))
        if record.state not in ENDED or followed.paths.result.exists() or not await _ends(record):
            return
        followed.connection, followed.epoch = None, 0
        await followed.connect()


async def _collect(followed: _Followed, connection: Connection, take: Take) -> None:
    result = await connection.collect()
    if result is not None:
        take(*result)
        given(followed.paths)  # also where its worker is killed before it hears of it
        with suppress(Unreachable):
            await connection.ask("collected")


async def _ends(record: Record) -> bool:
    """Wait a moment for the worker's end; whether there was one to wait for."""
    fd = record.worker.open() if record.worker is not None else None
    if fd is None:
        return False
    try:
        with anyio.move_on_after(AGAIN):
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)
    return True


@dataclass
class _Followed:
    """A job and, once its worker has opened it, the connection that tells the worker somebody waits for the result."""

    job: Job
    paths: JobPaths
    stack: AsyncExitStack
    group: TaskGroup
    connection: Connection | None = None
    epoch: int = 0  # of the worker at the other end; a move replaces it, and with it the socket
    reachable: anyio.Event = field(default_factory=anyio.Event)
    unwritten: list[Entry] = field(default_factory=list)  # the end, where the disk has not taken it
    look: Callable[[], None] = lambda: None  # at `unwritten`

    async def connect(self) -> None:
        record = read_record(self.paths)
        if record.epoch == self.epoch or not record.socket or not _lives(record):
            return
        try:
            connection = await self.stack.enter_async_context(connect(self.job, record))
            if (await connection.ask("follow")).ok:
                self.connection, self.epoch = connection, record.epoch
                self.reachable.set()
                self.group.start_soon(self._hear, record)
        except (Unreachable, VersionDiffers):
            return  # just ending, or of another version: its result will be on the disk

    async def _hear(self, record: Record) -> None:
        """Have the worker itself say how its job ends, where no file can."""
        with suppress(Unreachable, VersionDiffers):
            async with connect(self.job, record) as connection:
                outcome = await connection.outcome()
                entries = [decoded(str(line).encode()) for line in outcome.get("unwritten", ())]
                self.unwritten = [entry for entry in entries if entry is not None]
                if self.unwritten:
                    self.look()


async def _until_end(
    followed: _Followed, show: Show, after: int, exit_code: Callable[[], int | None], on: bool
) -> StateChange:
    story = _Story(JournalReader(followed.paths.journal, after), show)
    try:
        while True:
            with anyio.CancelScope() as scope:
                followed.look = scope.cancel
                return await _by_the_files(followed, story, exit_code, on)
            story.read()
            for entry in followed.unwritten:
                story.tell(entry)
            if story.end is not None and not (on and story.end.state == "released"):
                return story.end
    finally:
        story.reader.close()


@dataclass
class _Story:
    """What is shown of a job, in its order."""

    reader: JournalReader
    show: Show
    end: StateChange | None = None  # unless a later worker goes on

    def read(self) -> None:
        for entry in self.reader.read():
            self._take(entry)

    def tell(self, entry: Entry) -> None:
        """Of one that the journal lacks."""
        if entry.seq > self.reader.after:
            self.reader.after = entry.seq
            self._take(entry)

    def is_over(self, record: Record) -> bool:
        """Whether it has come to the end that this record has; a worker that is gone may have left it there alone."""
        if record.state not in OVER:
            return False
        if record.state in LEFT and not self._is_told(record) and not _lives(record):
            self.read()  # it may have written until a moment ago
            if not self._is_told(record):
                end = StateChange(record.state, record.reason, epoch=record.epoch)
                self.tell(Entry(self.reader.after + 1, record.since, end))
        return self._is_told(record)

    def _is_told(self, record: Record) -> bool:
        return self.end is not None and self.end.epoch >= record.epoch

    def _take(self, entry: Entry) -> None:
        self.show(entry.event, entry.time)
        if isinstance(entry.event, StateChange):
            self.end = entry.event if entry.event.state in LEFT else None


async def _by_the_files(
    followed: _Followed, story: _Story, exit_code: Callable[[], int | None], on: bool
) -> StateChange:
    async with changes(followed.paths) as looks:
        async for record in looks:
            await followed.connect()
            story.read()
            if on and record.state == "released":
                continue
            if story.is_over(record) and not _is_lost_with_all(record):
                assert story.end is not None
                return story.end
            if record.state == "lost":
                raise WorkerDied(followed.job.name, _how_it_died(exit_code(), record) + _way_on(followed.job, record))
    raise AssertionError("the changes of a journal have no end")


def _is_lost_with_all(record: Record) -> bool:
    """Whether it was done, as its journal says, and its worker was killed with what nobody else had."""
    return record.state == "lost" and record.reason.endswith(UNGIVEN)


def _lives(record: Record) -> bool:
    return record.worker is not None and record.worker.alive()


async def _pass_on(followed: _Followed, interrupts: Interrupts, leaving: Leaving | None, show: Show) -> None:
    """Carry interrupts to the worker; each further one is firmer, and says so before anything can be lost."""
    while True:
        pressed = await interrupts.next()
        if leaving is not None and await leaving():
            raise Left
        name = followed.job.name
        if pressed == 1:
            await _ask(followed, "interrupt", show)
        elif pressed == 2:
            show(
                Note(
                    f"{name} has been interrupted and is still ending. Interrupt once more to end it at once,"
                    " without its variables."
                )
            )
            await _ask(followed, "interrupt", show)
        elif pressed == 3:
            await _ask(followed, "end", show)
        else:
            record = read_record(followed.paths)
            if record.worker is not None:
                record.worker.signal(signal.SIGKILL)


async def _ask(followed: _Followed, verb: WorkerVerb, show: Show) -> None:
    await followed.reachable.wait()  # a press in the first moment is kept until somebody can hear it
    while True:
        epoch = followed.epoch
        try:
            async with connect(followed.job, read_record(followed.paths)) as connection:
                await connection.ask(verb)
                return
        except Unreachable as error:
            if read_record(followed.paths).state != "moving":
                show(Note(str(error)))
                return
        while followed.epoch == epoch:  # until it is heard where the job goes on
            followed.reachable = anyio.Event()
            await followed.reachable.wait()


def _way_on(job: Job, record: Record) -> str:
    if record.checkpoint is None:
        return ""
    return f" It was saved at {record.checkpoint.words}; to go on from there: %gpufit resume {job.name}."


def _how_it_died(exit_code: int | None, record: Record) -> str:
    """What the system says of a process that wrote no end."""
    if exit_code is None:
        return "ended unexpectedly: it was killed, or the machine restarted."
    if exit_code >= 0 and record.worker is None:
        return f"could not start (exit code {exit_code}): the end of the job's worker.log says why."
    if exit_code >= 0:
        return f"ended itself with exit code {exit_code} in the middle of the cell (os._exit, or a crash in a library)."
    name = name_of(-exit_code)
    if name == "SIGKILL":
        return "was killed by SIGKILL: by somebody, or by the system because the host's memory was full."
    if name in CRASHES:
        return f"was ended by {name}: a crash in compiled code, whose last words are in the job's worker.log."
    return f"was ended by {name}, which somebody or something sent."
