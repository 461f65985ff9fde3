"""Stand-ins for streams, events and the context managers of torch.cuda.

They are honest: here every operation has ended when its call returns, so all streams are in order with each
other, every event has happened, and the time between two events is the time that passed.
"""

from __future__ import annotations

import time
from contextlib import ContextDecorator
from typing import Any

import torch


class OneStream(torch.Stream):
    """The one order in which everything is done."""

    def __new__(cls, device: object = None, priority: int = 0, **_: object) -> OneStream:
        return super().__new__(cls, device="cpu")

    cuda_stream = 0

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def wait_stream(self, stream: object) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = event or OneEvent()
        event.record(self)
        return event

    def __enter__(self) -> OneStream:
        return self

    def __exit__(self, *why: object) -> None:
        pass


class OneEvent(torch.Event):
    """A moment, to measure from and to."""

    def __new__(cls, *args: object, enable_timing: bool = False, **_: object) -> OneEvent:
        event = super().__new__(cls, "cpu")
        event._timed = enable_timing or args[:1] == (True,)
        event._at = None
        return event

    _timed: bool
    _at: int | None  # nanoseconds

    def record(self, stream: object = None) -> None:
        self._at = time.perf_counter_ns()

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds to `end_event`; refused where CUDA refuses it."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._at is None or end_event._at is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(end_event._at - self._at) / 1e6

    def query(self) -> bool:
        return True

    def wait(self, stream: object = None) -> None:
        pass

    def synchronize(self) -> None:
        pass


class NoChange(ContextDecorator):
    """A context manager that would choose a device or a stream, of which there is one; nvtx's ranges decorate, too."""

    def __init__(self, stream: object = None) -> None:  # the name that torch's StreamContext has for it
        self.chosen = stream
        self.idx = 0

    def __enter__(self) -> None:
        pass

    def __exit__(self, *why: object) -> None:
        pass
