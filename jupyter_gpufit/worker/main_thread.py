"""The worker's main thread: runs what the control thread hands it, and lets an interrupt into the user's code only."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

AGAIN = 0.1  # seconds after which an interrupt that nobody heard is sent again
TIMES = 5


class MainThread:
    """User code needs the main thread: signals arrive there, and so do the expectations of many libraries."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._busy = False
        self._interruptible = False
        self._interrupted_early = False
        self._heard = 0  # interrupts
        self.before_interrupt: Callable[[], None] = lambda: None  # called where it strikes, before it is raised

    async def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the main thread, from the control thread's loop."""
        return await asyncio.wrap_future(self.start(function))

    def start(self, function: Callable[[], T]) -> Future[T]:
        """The same, for whoever waits for it more than once."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return  # whoever asked has given up; once it runs, its result can no longer be refused
            self._busy = True
            try:
                result = function()
            except BaseException as error:
                self._busy = False
                future.set_exception(error)
            else:
                self._busy = False  # first: whoever has the result knows that this thread is free
                future.set_result(result)

        self._calls.put(call)
        return future

    @property
    def busy(self) -> bool:
        """Whether it runs something now, or stands still in it."""
        return self._busy

    @property
    def interrupted(self) -> bool:
        """Whether an interrupt waits for user code to strike."""
        return self._interrupted_early

    def interrupt_at_once(self) -> None:
        """Interrupt the user's code as soon as there is any; for the time before `serve`."""
        self._interrupted_early = True

    def serve(self) -> None:
        """Run what is asked until `leave`; to be called in the main thread."""
        assert threading.current_thread() is threading.main_thread()
        signal.signal(signal.SIGINT, self._on_interrupt)
        while (call := self._calls.get()) is not None:
            call()

    def leave(self) -> None:
        self._calls.put(None)

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the user's code, as Ctrl-C would."""
        ident = threading.main_thread().ident
        assert ident is not None
        before = self._heard
        signal.pthread_kill(ident, signal.SIGINT)
        threading.Thread(target=self._insist, args=(ident, before), name="gpufit-insist", daemon=True).start()

    def _insist(self, ident: int, before: int) -> None:
        """Send it again: what comes just before a long sleep is only looked at when Python has slept."""
        for _ in range(TIMES):
            time.sleep(AGAIN)
            if self._heard > before or signal.getsignal(signal.SIGINT) != self._on_interrupt:
                break  # the cell may have a handler of its own, which must not count more than one
            signal.pthread_kill(ident, signal.SIGINT)

    @contextmanager
    def user_code(self) -> Iterator[None]:
        """Where an interrupt may strike; outside, it would leave our own state half-changed."""
        if self._interrupted_early:  # while its variables were being opened
            raise KeyboardInterrupt
        self._interruptible = True
        try:
            yield
        finally:
            self._interruptible = False

    def is_here(self) -> bool:
        return threading.current_thread() is threading.main_thread()

    @contextmanager
    def ours(self) -> Iterator[None]:
        """Inside user code, a stretch of ours: an interrupt waits until it is over, and then strikes."""
        assert self.is_here()
        before, self._interruptible = self._interruptible, False
        try:
            yield
        finally:
            self._interruptible = before
        if before and self._interrupted_early:
            self._interrupted_early = False
            self.before_interrupt()
            raise KeyboardInterrupt

    def ours_if_here(self) -> AbstractContextManager[None]:
        """The same, where another thread may come, too: no interrupt strikes that."""
        return self.ours() if self.is_here() else nullcontext()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        self._heard += 1
        if self._interruptible:
            self.before_interrupt()
            raise KeyboardInterrupt
        self._interrupted_early = True
