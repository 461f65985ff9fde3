"""Saving a running job: what is asked for by a front or the clock becomes a checkpoint at the next safe point.

    asked -> program.pending -> safe point, in the main thread -> take -> buffer -> the training goes on -> durable

`Saver` belongs to the control thread; the main thread enters it at safe points only (`at_safe_point`). What is asked
for while a checkpoint waits for its safe point joins it; what is asked for while one is being written waits for that,
since it wants the training as it is then. A job that leaves stands still at its safe point until it is durable, and
goes on if it cannot be.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, TypeAlias

import anyio
from anyio.abc import TaskStatus

from ..errors import CannotSave, GpufitError, NotHere
from ..jobs.events import ENDED_FIRST, WAITING, CouldNotSave, Saved, Why
from ..jobs.record import LastCheckpoint
from ..lab import Granted
from .main_thread import MainThread
from .save_wish import FIRST_RETRY, Leave, SaveWish
from .whereabouts import where_is

PATIENCE = 3.0  # seconds without a safe point after which the reason is said
PATIENCE_OF_CLOCK = 60.0  # the same for an automatic checkpoint, for which nobody waits
LOOK_AHEAD = 10.0  # seconds of training after which it is tried, once, whether it could be saved
DOUBTS = 1.0  # seconds after which that is tried for the first time where the cell began what may stand in the way
LOOKS = 5  # at what only a library's function holds, after which it is said
PATIENCE_IN_LIBRARY = 20.0  # seconds for which a wish waits for such a function to end
NEXT_POINTS = 16  # that are tried at once after one in such a function; later ones after a while
LOOK_AGAIN = 2.0  # seconds between two looks at what holds it up
ROOM = "makes room in the host's memory for the checkpoint, and trains on meanwhile"
LAST_RETRY = 2.0  # seconds, see FIRST_RETRY


@dataclass(frozen=True)
class Durable:
    """A checkpoint on disk."""

    name: str
    bytes: int
    exact: bool = True  # see LastCheckpoint


class NotReady(Exception):
    """The training shall go on until what a quick save needs is made; then the next safe point is tried."""


class Keeps(Protocol):
    """The program at its safe points, and where its checkpoints go; checkpoint/ is the real one."""

    def prepare(self) -> None:
        """Make ready what the next checkpoint needs, which may take a while; not in the main thread."""

    def in_doubt(self) -> bool:
        """Whether the cell has begun something that often cannot be saved; quick, from any thread."""

    def look(self, *, patient: bool) -> None:
        """In the main thread, at a safe point: say what could not be saved, or raise it if `patient` and it may pass.

        Raises NotHere.
        """

    def want(self, wanted: bool) -> None:
        """Have `on_safe_point` called at the next safe point, or not."""

    def save(self, why: Why) -> tuple[int, str, Future[Durable]]:
        """In the main thread: copy all of it; the step, the place, and when it is durable. Raises NotHere, NotReady."""


Settled: TypeAlias = Callable[[Saved | CouldNotSave, LastCheckpoint | None], None]
Saying: TypeAlias = Callable[[Why, str], None]  # what a wish waits for, in words


class Saver:
    """One cell's checkpoints."""

    def __init__(
        self,
        keeper: Keeps,
        main: MainThread,
        settled: Settled,
        saying: Saying,
        defect: Callable[[Exception], None],
    ) -> None:
        self._keeper = keeper
        self._main = main
        self._settled = settled
        self._saying = saying
        self._defect = defect
        self._guard = threading.Lock()  # a wish is either joined, or taken
        self._wish: SaveWish | None = None
        self._writing: SaveWish | None = None  # the one that is being written
        self._asked = 0
        self._prepared = False
        self._makes_room = False  # just now, for the copy
        self._told = ""
        self._open = False
        self._looking = False
        self._looks = 0
        self._left: Leave | None = None
        self._left_by: SaveWish | None = None

    # The control thread ----------------------------------------------------------------------------------------------

    async def serve(self, every: float, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> Leave:
        """Look after wishes until the job leaves by one of them; the clock's own come every so many seconds."""
        self._loop = asyncio.get_running_loop()
        # Called from the main thread, anyio would not know its loop where sniffio is installed, which looks here.
        self._context = contextvars.copy_context()
        self._leaving, self._written, self._preparing = anyio.Event(), anyio.Event(), anyio.Lock()
        self._open = True
        try:
            async with anyio.create_task_group() as self._group:
                self._group.start_soon(self._watch)
                self._group.start_soon(self._look_ahead)
                if every > 0:
                    self._group.start_soon(self._by_the_clock, every)
                task_status.started()
                await self._leaving.wait()
                self._group.cancel_scope.cancel()
        finally:
            self._open = False
            self._keeper.want(False)
        assert self._left is not None
        return self._left

    def ask(
        self,
        why: Why,
        leave: Callable[[int], Leave] | None = None,
        give_up: Callable[[], None] = lambda: None,
        *,
        own: bool = False,
    ) -> int:
        """Have a checkpoint made; returns its number, which `Saved` or `CouldNotSave` will carry.

        `own`: the job itself wants it, and gives way to who wants something else.
        """
        with self._guard:
            wish = self._wish
            for under_way in (self._writing, wish):
                if under_way is not None and leave is not None and under_way.gives_way(why):
                    under_way.become(why, leave, give_up)
            if self._writing is not None and self._writing.leave is not None:
                return self._writing.number  # it is being saved, and nothing comes after that here
            if wish is None:
                self._asked += 1
                wish = self._wish = SaveWish(why, self._asked, leave, give_up, own)
            elif wish.leave is None and (leave is not None or wish.why == "automatic"):
                wish.why, wish.leave, wish.give_up, wish.own = why, leave, give_up, own
                wish.since = time.monotonic()
        if self._writing is None:
            self._group.start_soon(self._arm)
        return wish.number

    async def settle(self) -> None:
        """Wait until what is being written is durable: whoever stopped the cell may want to resume it."""
        while self._writing is not None:
            self._written = anyio.Event()
            await self._written.wait()

    def leave(self, left: Leave) -> NoReturn:
        """In the cell: the job goes on from its newest checkpoint, and what runs here comes to nothing more.

        On a GPU a backward runs in a thread of torch's, for which the main one waits.
        """
        with self._main.ours_if_here():
            self._soon(self._leave, left)
            while True:
                _wait_here(threading.Event())

    async def _leave(self, left: Leave) -> None:
        await self.settle()
        self._left = left
        self._leaving.set()

    def stay(self) -> None:
        """Let the training that has left go on where it stands: its process was suspended, and did not end."""
        assert self._left_by is not None
        self._prepared = False  # what saves was closed
        self._left_by.go_on.set()

    def close(self) -> None:
        """The cell has ended: nothing can be saved any more."""
        self._keeper.want(False)
        if (wish := self._wish) is not None:
            self._fail(wish, ENDED_FIRST)

    async def _arm(self) -> None:
        """Have the next safe point save. Until all is ready for that the training runs on, whoever else asks."""
        async with self._preparing:
            if not self._prepared:
                self._prepared = True
                self._makes_room = True
                try:
                    await anyio.to_thread.run_sync(self._keeper.prepare, abandon_on_cancel=True)
                except Exception as error:
                    self._prepared = False
                    if (wish := self._wish) is not None:
                        self._fail(wish, self._reason(error))
                    return
                finally:
                    self._makes_room = False
        self._keeper.want(self._wish is not None)

    async def _by_the_clock(self, every: float) -> None:
        while True:
            await anyio.sleep(every)
            if self._wish is None and self._writing is None:
                self.ask("automatic")

    async def _look_ahead(self) -> None:
        """Find what cannot be saved before hours are spent, and not when a checkpoint is needed."""
        await anyio.sleep(DOUBTS)
        if self._keeper.in_doubt():
            await self._look_at_next()
        await anyio.sleep(LOOK_AHEAD - DOUBTS)
        await self._look_at_next()

    async def _look_at_next(self) -> None:
        self._looking = True
        self._keeper.want(True)

    async def _look_again(self) -> None:
        await anyio.sleep(FIRST_RETRY * 4**self._looks)
        await self._look_at_next()

    async def _watch(self) -> None:
        """Say what holds a wish up."""
        ident = threading.main_thread().ident
        assert ident is not None
        said = ""
        while True:
            await anyio.sleep(LOOK_AGAIN if self._wish is not None else PATIENCE)
            wish = self._wish
            if wish is None or self._writing is not None:
                continue
            waited = time.monotonic() - wish.since
            if waited < (PATIENCE_OF_CLOCK if wish.why == "automatic" else PATIENCE):
                continue
            if self._makes_room:
                what, held = "", ROOM
            else:
                what = " for a safe point"
                held = wish.deferred or where_is(ident) or "inside code that cannot be looked at"
            if held != said:
                said = held
                self._saying(wish.why, f"{WAITING}{what} since {waited:.0f} s: {held}")

    async def _finish(
        self, wish: SaveWish, step: int, where: str, began: float, pause: float, future: Future[Any]
    ) -> None:
        """Wait until it is durable; only then it is said, and only then the job may leave."""
        try:
            durable: Durable = await asyncio.wrap_future(future)
        except Exception as error:
            self._fail(wish, self._reason(error))
            return
        finally:
            self._writing = None
            self._written.set()
        seconds = time.monotonic() - began
        self._told = ""
        exact = durable.exact
        saved = Saved(wish.number, step, where, durable.name, durable.bytes, pause, seconds, wish.why, exact)
        self._settled(saved, LastCheckpoint(step, time.time(), durable.bytes, exact))
        if wish.leave is not None:
            self._left, self._left_by = wish.leave(step), wish
            self._leaving.set()
        elif self._wish is not None:  # asked for meanwhile
            await self._arm()

    def _reason(self, error: Exception) -> str:
        """Why nothing could be saved, which is no reason to end a training, whatever it is."""
        if isinstance(error, (GpufitError, OSError)):
            return str(error)
        self._defect(error)
        return f"{type(error).__name__}: {error}"

    def _fail(self, wish: SaveWish, reason: str) -> None:
        """The wish comes to nothing, and the training goes on."""
        if self._wish is wish:
            self._wish = None
            self._keeper.want(False)
        told = reason == self._told if wish.why == "automatic" else wish.own and reason == ENDED_FIRST
        if not told:  # the clock says each reason once; and nobody waits for what the job wanted by itself
            self._settled(CouldNotSave(wish.number, reason, wish.why), None)
        if wish.why == "automatic":
            self._told = reason
        wish.give_up()
        wish.go_on.set()
        if self._wish is not None and self._open:
            self._group.start_soon(self._arm)

    async def _try_again(self, wish: SaveWish) -> None:
        await anyio.sleep(wish.retry)
        wish.retry = min(LAST_RETRY, wish.retry * 2)
        self._keeper.want(self._wish is not None)

    def _soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        """From the main thread: start a task of the control thread's."""

        def start() -> None:
            if self._open:
                self._group.start_soon(function, *arguments)

        self._loop.call_soon_threadsafe(start, context=self._context)

    # The main thread -------------------------------------------------------------------------------------------------

    def at_safe_point(self) -> None:
        """Save what is wished for, if this place allows it; does not return where the job leaves."""
        if not self._main.is_here():
            return  # a thread of the cell's: the cell itself is somewhere else
        with self._main.ours():
            self._keeper.want(False)
            wish = self._wish
            if self._looking and wish is None:
                self._look()
            if wish is None or self._writing is not None:
                return
            if self._save(wish) and wish.leave is not None:
                _wait_here(wish.go_on)

    def _look(self) -> None:
        self._looking = False
        self._looks += 1
        try:
            self._keeper.look(patient=self._looks < LOOKS)
        except CannotSave:
            self._soon(self._look_again)
        except Exception as error:  # it was to help; a wish will meet the same, and says it
            if not isinstance(error, GpufitError):
                self._defect(error)

    def _save(self, wish: SaveWish) -> bool:
        began = time.monotonic()
        try:
            step, where, future = self._keeper.save(wish.why)
        except NotHere as error:
            return self._put_off(wish, error.why)
        except NotReady:
            wish.deferred = ""  # that it makes room is said as long as it does
            self._prepared = False
            self._soon(self._arm)
            return False
        except Exception as error:  # of ours or of the user's objects
            if isinstance(error, CannotSave) and error.passing:
                wish.refused = wish.refused or time.monotonic()
                if time.monotonic() - wish.refused < PATIENCE_IN_LIBRARY:
                    wish.refusals += 1
                    return self._put_off(wish, " is ".join(error.problems[0]), at_once=wish.refusals <= NEXT_POINTS)
            self._loop.call_soon_threadsafe(self._fail, wish, self._reason(error), context=self._context)
            return False
        with self._guard:
            self._writing, self._wish = wish, None
        self._soon(self._finish, wish, step, where, began, time.monotonic() - began, future)
        return True

    def _put_off(self, wish: SaveWish, why: str, *, at_once: bool = False) -> bool:
        """`at_once`: to the very next point; after a while the loop may stand there again, as in a bar's update."""
        wish.deferred = why
        if at_once:
            self._keeper.want(True)
        else:
            self._soon(self._try_again, wish)
        return False


def labels(granted: Granted) -> str:
    """The devices, as people call them."""
    return ", ".join(device.label for device in granted.devices)


def _wait_here(go_on: threading.Event) -> None:
    """Stand still until the process ends; or until it turns out that it does not.

    Whatever a signal's handler raises here goes nowhere: unwound, the cell's `finally` blocks would act on files with
    which the resumed job goes on. Torch's handler, say, raises when the workers of a DataLoader are ended.
    """
    while not go_on.is_set():
        try:
            go_on.wait()
        except BaseException:
            continue
