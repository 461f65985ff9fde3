"""Copies between device and host beside what is computed: one at a time in each direction, in the order asked for.

Of a trial run they take time on its clock alone. Where `cuda` is a stand-in, two threads copy, as fast as a link that
is simulated, or as they can. On a GPU two streams do.
"""

from __future__ import annotations

import _thread
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from ..clock import clock

simulated: float | None = None  # bytes a second of a slot's link, for tests and benchmarks; None: as fast as it goes

Copy = Callable[[], None]


class CopyUnderWay:
    """One copy; it keeps its storage alive until nobody waits for it any more."""

    def __init__(self, storage: torch.UntypedStorage, nbytes: int) -> None:
        self.storage: torch.UntypedStorage | None = storage
        self.nbytes = nbytes
        self.until = 0.0  # on a trial run's clock
        self.event: Any = None  # of a stream, or a thread
        self.comes = False  # to the device
        self.ahead = False  # before it was asked for
        self.after: Sequence[CopyUnderWay] = ()  # those in whose place it comes
        self.error: BaseException | None = None


class Link(Protocol):
    """One run's."""

    waited: float  # seconds

    def out(self, copy: Copy, under_way: CopyUnderWay) -> None:
        """Copy to the host."""

    def back(self, room: Copy, copy: Copy, under_way: CopyUnderWay, after: Sequence[CopyUnderWay]) -> None:
        """Once those are done, make room on the device and copy there."""

    def wait(self, under_way: CopyUnderWay) -> None:
        """Until it is done."""


def await_for_reader(event: Any) -> None:
    """For who reads the host's copy past all operations, in whatever thread; of a copy to the host."""
    if event is not None:
        event.wait() if isinstance(event, threading.Event) else event.synchronize()


def link_of(storage: torch.UntypedStorage) -> Link:
    """For storages of this kind."""
    if storage.device.type == "meta":
        return _OnClock()
    return _InThreads() if storage.device.type == "cpu" else _OnStreams()


class AtOnce:
    """In the middle of what is computed: for a process that was forked, in which no thread of ours runs."""

    waited = 0.0

    def out(self, copy: Copy, under_way: CopyUnderWay) -> None:
        copy()

    def back(self, room: Copy, copy: Copy, under_way: CopyUnderWay, after: Sequence[CopyUnderWay]) -> None:
        room()
        copy()

    def wait(self, under_way: CopyUnderWay) -> None:
        """It is done."""


class _OnClock(AtOnce):
    def __init__(self) -> None:
        self.waited = 0.0

    def out(self, copy: Copy, under_way: CopyUnderWay) -> None:
        under_way.until = clock.out(under_way.nbytes)
        copy()

    def back(self, room: Copy, copy: Copy, under_way: CopyUnderWay, after: Sequence[CopyUnderWay]) -> None:
        under_way.until = clock.back(under_way.nbytes, [one.until for one in after])
        room()
        copy()

    def wait(self, under_way: CopyUnderWay) -> None:
        before = clock.waited
        clock.wait(under_way.until)
        self.waited += clock.waited - before


class _InThreads:
    def __init__(self) -> None:
        self.waited = 0.0
        self._out, self._back = _Line(), _Line()

    def out(self, copy: Copy, under_way: CopyUnderWay) -> None:
        under_way.event = threading.Event()
        self._out.asked.put((copy, under_way, []))

    def back(self, room: Copy, copy: Copy, under_way: CopyUnderWay, after: Sequence[CopyUnderWay]) -> None:
        def both() -> None:
            room()
            copy()

        under_way.event = threading.Event()
        self._back.asked.put((both, under_way, list(after)))

    def wait(self, under_way: CopyUnderWay) -> None:
        if not under_way.event.is_set():
            began = time.perf_counter()
            under_way.event.wait()
            self.waited += time.perf_counter() - began
        if under_way.error is not None:
            raise under_way.error


class _Line:
    """One direction, and the thread that copies in it; it ends with the process."""

    def __init__(self) -> None:
        self.asked: queue.SimpleQueue[tuple[Copy, CopyUnderWay, list[CopyUnderWay]]] = queue.SimpleQueue()
        # Past `threading`, where the cell would find a thread that it did not start, and which a plan is put around.
        _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        free = 0.0
        while True:
            copy, under_way, after = self.asked.get()
            for one in after:
                one.event.wait()
            free = max(free, time.perf_counter())
            if simulated is not None:  # first, so that who does not wait for it sees that it is not done
                free += under_way.nbytes / simulated
                time.sleep(max(0.0, free - time.perf_counter()))
            try:
                copy()
            except BaseException as error:  # told to who waits for it
                under_way.error = error
            done = under_way.event
            del copy, under_way, after  # who waits lets go of the storages last: nothing of the cell's dies in here
            done.set()


class _OnStreams:
    """On a GPU; not run on one yet. What leaves is waited for before its memory is given back."""

    def __init__(self) -> None:
        self.waited = 0.0
        self._streams: dict[tuple[torch.device, bool], Any] = {}

    def out(self, copy: Copy, under_way: CopyUnderWay) -> None:
        self._begin(copy, under_way, back=False)

    def back(self, room: Copy, copy: Copy, under_way: CopyUnderWay, after: Sequence[CopyUnderWay]) -> None:
        for one in after:
            one.event.synchronize()
        room()
        self._begin(copy, under_way, back=True)

    def _begin(self, copy: Copy, under_way: CopyUnderWay, *, back: bool) -> None:
        assert under_way.storage is not None
        device = under_way.storage.device
        if (device, back) not in self._streams:
            self._streams[device, back] = torch.cuda.Stream(device)
        stream = self._streams[device, back]
        stream.wait_stream(torch.cuda.current_stream(device))  # what computes it, and what had its memory before
        with torch.cuda.stream(stream):
            copy()
            under_way.event, under_way.comes = stream.record_event(), back

    def wait(self, under_way: CopyUnderWay) -> None:
        assert under_way.storage is not None
        if under_way.comes:
            torch.cuda.current_stream(under_way.storage.device).wait_event(under_way.event)
        else:
            began = time.perf_counter()
            under_way.event.synchronize()
            self.waited += time.perf_counter() - began
