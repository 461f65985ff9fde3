"""The slot's memory: how far the process has grown since the cell began, and the error when that is too far.

Growth is of private resident memory. A mapped data set and shared memory are not in it, just as they would not be on a
GPU; host tensors and imported libraries are, since nothing tells their bytes from the slot's. Only between two Python
instructions can a cell be stopped: one huge operation may pass the budget before the error comes.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

import torch

from ...units import format_bytes
from ..surface.answers import DeviceMemory

PERIOD = 0.05  # seconds between two looks at the memory

# A real-time signal: SIGUSR1 and SIGUSR2 belong to schedulers and profilers that a training may use.
SIGNAL = signal.SIGRTMIN + 7

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LIBC = ctypes.CDLL(None)
_PASSED_OVER = frozenset(sys.stdlib_module_names - {"__main__"}) | {"torch"}
_NOT_TO_BE_CUT = frozenset({"jupyter_gpufit", "IPython", "traitlets"}) | {
    # which format a traceback: the error of a cell just at its limit must not be replaced by a second one
    "pygments",
    "stack_data",
    "executing",
    "asttokens",
    "pure_eval",
}
_PACKS = ("jupyter_gpufit.checkpoint", "jupyter_gpufit.graph", "jupyter_gpufit.snapshot")  # what they call is theirs


class SlotRoom(DeviceMemory, Protocol):
    """The memory that `cuda` stands for: a slot's Budget, or a notebook's (notebook/cuda/expected.py)."""

    slot: str  # its name; empty: in a notebook's own process

    def check(self, asked: int) -> None:
        """Refuse what can never be had."""

    def exceeded(self, asked: int = 0) -> torch.OutOfMemoryError:
        """The error for that."""

    def computed(self) -> None:
        """Something was computed there."""


class Budget:
    """The bytes that the cell may take of a slot, and what it has taken of them."""

    def __init__(self, slot: str, total: int, whole: int = 0) -> None:
        self.slot = slot
        self._total = total  # bytes
        self._whole = max(total, whole)  # bytes of the slot, of which others may have a part
        self._start = _resident()
        self._peak = self._recent_peak = 0
        self._alarm = total  # bytes above which the cell is told; raised while it stays in excess
        self._stopped = threading.Event()

    @property
    def total(self) -> int:
        return self._total

    def go_on(self, slot: str, total: int, whole: int) -> None:
        """Another slot, or another share of it, from now on."""
        self.slot, self._total, self._whole, self._alarm = slot, total, max(total, whole), total

    def computed(self) -> None:
        """Something was computed: on a slot that is nothing to say."""

    def used(self) -> int:
        """Bytes the process has grown by since the cell began."""
        used = self._grown()
        if used > self._total:
            give_back()
            used = self._grown()
        self._peak, self._recent_peak = max(self._peak, used), max(self._recent_peak, used)
        return used

    def _grown(self) -> int:
        return max(0, _resident() - self._start)

    def peak(self) -> int:
        """The most bytes that were in use at any look."""
        self.used()
        return self._peak

    def recent_peak(self) -> int:
        """The same since `forget_peak`: what torch.cuda.max_memory_allocated answers."""
        self.used()
        return self._recent_peak

    def forget_peak(self) -> None:
        self._recent_peak = 0

    def check(self, asked: int) -> None:
        """Refuse what the slot could not hold even if it were empty; Linux would hand it out and fail much later."""
        if asked > self.total:
            raise self.exceeded(asked)

    def exceeded(self, asked: int = 0) -> torch.OutOfMemoryError:
        """The error with its figures."""
        used = format_bytes(self.used())
        grown = f"when it asked for {format_bytes(asked)} more" if asked else "in all"
        limit = f"The CPU slot {self.slot} has {format_bytes(self._whole)}"
        way_on = "a smaller batch, or a larger slot (GPUFIT_DEVICES)"
        if self.total < self._whole:
            limit += f", of which this job has claimed {format_bytes(self.total)}"
            way_on = "a smaller batch, or a larger claim (--memory)"
        return torch.OutOfMemoryError(f"{limit}; the cell had grown to {used} {grown}. Try {way_on}.")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Raise in the main thread when the budget is exceeded; to be entered there."""
        assert threading.current_thread() is threading.main_thread()
        before = signal.signal(SIGNAL, self._raise_unless_freed)
        watcher = threading.Thread(target=self._watch, name="gpufit-slot-budget", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            self._stopped.set()
            watcher.join()
            # A signal already sent is handled here at the latest, and `_stopped` makes that silent.
            signal.signal(SIGNAL, before)

    def _watch(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._stopped.wait(PERIOD):
            if self.is_exceeded():
                signal.pthread_kill(main, SIGNAL)

    def is_exceeded(self) -> bool:
        """Whether the cell should be told now: once per excess, and again when the excess has grown much further."""
        used = self.used()
        if used <= self.total:
            self._alarm = self.total
        return used > self._alarm

    def _raise_unless_freed(self, number: int, frame: FrameType | None) -> None:
        # Not raised here, it is sent again at the watcher's next look.
        if self._stopped.is_set() or not may_interrupt(frame) or not self.is_exceeded():
            return
        # Raised inside a __del__, the error would be lost: further growth tells again.
        self._alarm = self.used() + self.total // 10
        raise self.exceeded()


def give_back() -> None:
    """Return to the system what was freed: glibc keeps small blocks, which would count as the cell's."""
    if trim := getattr(_LIBC, "malloc_trim", None):
        trim(0)


def may_interrupt(frame: FrameType | None) -> bool:
    """Whether an exception now strikes the user's code, and not the journal or IPython in the middle of a change."""
    found = False
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if module == "__main__" or module.startswith(_PACKS):
            return module == "__main__"
        # Our own mode stands between the user's line and torch, and has no state that could be cut in half.
        if not found and not module.startswith("jupyter_gpufit.cuda.slot") and top not in _PASSED_OVER:
            if top in _NOT_TO_BE_CUT:
                return False
            found = True  # a library's code, or a module of the user's: unless it is us who called it
        frame = frame.f_back
    return found


def _resident() -> int:
    with open("/proc/self/statm", "rb", buffering=0) as statm:
        _, resident, shared, *_ = statm.read().split()
    return (int(resident) - int(shared)) * _PAGE
