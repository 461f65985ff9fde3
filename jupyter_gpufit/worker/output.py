"""Everything a cell writes, in the order it was written: by Python, by C, by its children, and rich output between.

Python's streams put their texts in a queue. What comes from below Python (printf, os.write, a child) comes by pipes
over fd 1 and 2; every Python write first takes what stands in them, so that a thread's output keeps its order. A thread
decodes, merges and hands on. Nothing wakes while nothing is written.

Memory: writers wait while over 8 MiB stand in the queue, so a burst costs that, the largest single text, 8 MiB in the
making and 1 MiB in each pipe. Not covered: printf without a newline, which C holds back; order between fd 1 and fd 2
when both are written from below Python within a moment; the last words of a crashing process (give faulthandler
`Output.log`); native code that writes over 1 MiB at once while it holds the GIL: nobody in this process could read it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

from ..units import MiB
from .streams import CapturedStream, Tap, make_c_line_buffered, push_out, readiness
from .texts import Bytes, Decoder, Event, Name, Passage, WrittenText, batches, coalesced, size, size_of_text

__all__ = ["Event", "Name", "Output", "WrittenText"]

COALESCE = 0.05  # seconds in which what is written becomes one event
BACKLOG = 8 * MiB  # in the queue before writers wait


class _Mark(NamedTuple):
    """Set when everything that was queued before it has been emitted."""

    done: threading.Event
    last: bool = False


class Output:
    """Captures what this process and its children write, and hands it to `emit` in batches, from one thread.

    What `emit` raises is kept in `failure` and written to the log; the cell and its output go on.
    """

    log: TextIO  # while capturing: the file `log`, else where stderr led before; for what is ours to say

    def __init__(self, emit: Callable[[list[Event]], None], *, log: Path | None = None) -> None:
        self.failure: Exception | None = None  # the latest
        self._emit = emit
        self._log = log
        self._capturing = self._is_aside = False
        # A signal handler or finaliser may print while its own thread is in here: RLock and SimpleQueue allow for it.
        self._lock = threading.RLock()
        self._queue: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._hurry: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._passage: Passage | None = None  # the last in the queue, while what is written goes on in it
        self._added = self._emitted = 0  # bytes so far; their difference is the backlog
        os.register_at_fork(before=self._before_fork, after_in_child=self._in_forked_child)

    @contextlib.contextmanager
    def captured(self) -> Iterator[Output]:
        """Capture until the block ends."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Take the place of sys.stdout, sys.stderr, fd 1 and fd 2."""
        assert not self._capturing
        self._kept = sys.stdout, sys.stderr
        push_out(*self._kept)
        make_c_line_buffered()
        stdout, stderr = Tap("stdout", 1), Tap("stderr", 2)
        self._taps = {tap.reading: tap for tap in (stdout, stderr)}
        self._ready = select.epoll()
        for reading in self._taps:
            self._ready.register(reading, select.EPOLLIN)
        self._count_ready = readiness(list(self._taps))
        self._ending = os.eventfd(0)
        self.log = self._log.open("a", buffering=1) if self._log else stderr.original()
        self._flusher = threading.Thread(target=self._flush_forever, name="gpufit-flusher", daemon=True)
        self._reader = threading.Thread(target=self._read_forever, name="gpufit-reader", daemon=True)
        self._capturing = True
        self._flusher.start()
        self._reader.start()
        sys.stdout, sys.stderr = (
            CapturedStream(tap.name, tap.fd, take=partial(self._take_text, tap.name), catch_up=self._catch_up)
            for tap in (stdout, stderr)
        )

    def stop(self) -> None:
        """Emit the rest and put everything back; do so before an exec. Children that live on write to nobody."""
        if not self._capturing:
            return  # also in a forked child, which has none of the threads
        push_out(*self._kept)
        sys.stdout, sys.stderr = self._kept
        for tap in self._taps.values():
            tap.restore()
        with self._lock:
            self._drain()
            self._capturing = False
            self._append(_Mark(threading.Event(), last=True))
        self._hurry.put(None)
        os.eventfd_write(self._ending, 1)
        self._flusher.join()
        self._reader.join()
        self._ready.close()
        os.close(self._ending)
        self.log.close()
        for tap in self._taps.values():
            tap.close()

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """What is written meanwhile goes to the log: a library says again what the cell that imported it has shown."""
        self.flush()
        self._is_aside = True
        try:
            yield
        finally:
            self.flush()
            self._is_aside = False

    def put(self, event: Event) -> None:
        """Show something else than text, in its place among what is written; outside a capture, nothing is shown."""
        with self._lock:
            if not self._capturing:
                return
            self._drain()
            self._add(event)
        self._wait_for_room()

    def flush(self) -> None:
        """Return when everything written so far has been emitted."""
        if self._capturing:
            push_out(*self._kept)
            self._catch_up()
            self._wait()

    def _take_text(self, name: Name, text: str) -> bool:
        """Queue a text behind all that was written before it; False when nothing is being captured.

        Every print comes here twice. So its text is only added to a list, which the queue has as one event.
        """
        with self._lock:
            if not self._capturing:
                return False
            if self._count_ready():
                self._drain()
            passage = self._passage
            if passage is None or passage.name != name:
                passage = Passage(name, [])
                self._append(passage)
                self._passage = passage
            passage.texts.append(text)
            self._added += size_of_text(text)
        if self._added - self._emitted > BACKLOG:
            self._wait()
        return True

    def _catch_up(self) -> None:
        """Queue what stands in the pipes."""
        with self._lock:
            if self._capturing:
                self._drain()

    def _drain(self) -> None:
        if self._count_ready():
            for reading, _ in self._ready.poll(0):  # listed in the order in which they were written to
                tap = self._taps[reading]
                self._add(Bytes(tap.name, tap.read()))

    def _add(self, event: Event) -> None:
        self._append(event)
        self._added += size(event)

    def _append(self, event: Event) -> None:
        self._passage = None
        self._queue.put(event)

    def _wait_for_room(self) -> None:
        if self._added - self._emitted > BACKLOG:
            self._wait()

    def _wait(self) -> None:
        if threading.get_ident() == self._flusher.ident:
            return  # `emit` prints: the flusher cannot wait for itself
        mark = _Mark(threading.Event())
        with self._lock:
            if not self._capturing:
                return
            self._append(mark)
        self._hurry.put(None)
        mark.done.wait()

    def _read_forever(self) -> None:
        """Take what comes while no Python write does."""
        waiting = select.poll()
        waiting.register(self._ready.fileno(), select.POLLIN)
        waiting.register(self._ending, select.POLLIN)
        while self._capturing:
            waiting.poll()
            self._catch_up()
            self._wait_for_room()

    def _flush_forever(self) -> None:
        decoder = Decoder()
        last = False
        while not last:
            events, added = self._gathered()
            marks = [event for event in events if isinstance(event, _Mark)]
            written = [event for event in events if not isinstance(event, _Mark)]
            last = any(mark.last for mark in marks)
            self._hand_on(decoder.texts(written, last=last))
            self._emitted = added
            for mark in marks:
                mark.done.set()

    def _gathered(self) -> tuple[list[Event], int]:
        """Wait for something to be written, and a little longer for what follows it unless somebody waits for it.

        With it, the bytes that had been added by then.
        """
        first = self._queue.get()
        with contextlib.suppress(queue.Empty):
            self._hurry.get(timeout=COALESCE)
            while True:
                self._hurry.get_nowait()  # those who hurried before are in this round too
        with self._lock:  # a finaliser may print in here, too: so the passage that it began is closed last
            added = self._added
            events = [first, *(self._queue.get_nowait() for _ in range(self._queue.qsize()))]
            self._passage = None
        return [event.whole() if isinstance(event, Passage) else event for event in events], added

    def _hand_on(self, events: Iterable[Event]) -> None:
        try:
            for batch in batches(coalesced(self._shown(events))):
                try:
                    self._emit(batch)
                except Exception as error:
                    self._note(error)
        except Exception as error:  # this thread must not die: nobody would know why the output stopped
            self._note(error)

    def _shown(self, events: Iterable[Event]) -> Iterator[Event]:
        for event in events:
            if self._is_aside and isinstance(event, WrittenText):
                self.log.write(event.text)
            else:
                yield event

    def _note(self, error: Exception) -> None:
        if self.failure is None:
            with contextlib.suppress(OSError):
                traceback.print_exception(error, file=self.log)
        self.failure = error

    def _before_fork(self) -> None:
        if self._capturing:
            push_out(*self._kept)  # else the child, having inherited it, would write it once more

    def _in_forked_child(self) -> None:
        """Let the child write to the pipes itself: our threads are not in it, and our lock may be held by one."""
        if self._capturing:
            self._capturing = False
            self._lock = threading.RLock()
            for tap in self._taps.values():
                os.close(tap.reading)  # so that a child that outlives us fails to write instead of waiting forever
