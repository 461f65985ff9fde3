"""The spare: a worker that waits beside a kernel with torch imported, so that a cell starts at once.

It holds no device and no CUDA context, and is no job: nobody counts it. Its price is memory. So it is kept where there
is much, and given up where that gets short or nobody has run a cell for long; where memory runs out, it is the first
that the system ends. It ends with its kernel.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..system.memory import all_memory, free_memory
from ..units import GiB
from .local import WaitingWorker

SHORT = 2 * GiB  # of the host's memory, free; or a tenth of it, where that is more: a spare is given up
ENOUGH = 2  # times as much must be free before one is started
IDLE = 1800.0  # seconds without a cell, after which nobody waits for the next one
LOOK = 10.0  # seconds between two looks
_FIRST_TO_GO = 1000  # the system's own measure of whom to end where memory runs out


class Spare:
    """At most one waiting worker of a kernel."""

    def __init__(self, when: str, free: Callable[[], int] = free_memory) -> None:
        """`when`: the setting `spare_worker`."""
        self._when = when
        self._free = free
        self._lock = threading.Lock()  # between the cells and whoever looks after it
        self._waiting: WaitingWorker | None = None
        self._usual = ""  # what it is to be for the system once it has a job
        self._wanted = 0.0  # when a cell was run for the last time
        self._ends = threading.Event()

    def offer(self) -> None:
        """A cell has ended, and people read now: have a spare, where one is wanted and there is room for it."""
        if self._when == "never" or (self._when == "auto" and "torch" not in sys.modules):
            return
        with self._lock:
            self._wanted = time.monotonic()
            if self._waiting is not None and self._waiting.usable(os.environ):
                return
            self._dismiss()
            self._usual = ""
            if self._when == "always":
                self._waiting = WaitingWorker.spawn(os.environ)
            elif self._free() >= ENOUGH * _short():
                self._waiting = WaitingWorker.spawn(os.environ)
                self._usual = _first_to_go(self._waiting)
                self._ends = threading.Event()
                threading.Thread(target=self._look_after, args=(self._ends,), name="gpufit-spare", daemon=True).start()

    def take(self, env: Mapping[str, str], python: str = sys.executable) -> WaitingWorker:
        """The spare if it serves, or else a new worker."""
        with self._lock:
            self._ends.set()
            if self._serves(env, python):
                waiting, self._waiting = self._waiting, None
                assert waiting is not None
                return waiting
            self._dismiss()
        return WaitingWorker.spawn(env, python)

    def dismiss(self) -> None:
        with self._lock:
            self._dismiss()

    def _dismiss(self) -> None:
        self._ends.set()
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.dismiss()

    def _serves(self, env: Mapping[str, str], python: str) -> bool:
        """Whether there is one for this; the system takes it for what it is from now on, a worker with a job."""
        waiting = self._waiting
        if waiting is None or python != sys.executable or not waiting.usable(env):
            return False
        return not self._usual or _written(waiting, self._usual)

    def _look_after(self, ends: threading.Event) -> None:
        """Until it is taken: give it up where memory is short, or where nobody runs cells any more."""
        while not ends.wait(LOOK):
            if self._free() < _short() or time.monotonic() - self._wanted > IDLE:
                with self._lock:
                    if not ends.is_set():
                        self._dismiss()


def _short() -> int:
    return max(SHORT, all_memory() // 10)


def _first_to_go(waiting: WaitingWorker) -> str:
    """What it was before; nothing where that may not be said."""
    with suppress(OSError):
        usual = Path("/proc/self/oom_score_adj").read_text()
        if _written(waiting, str(_FIRST_TO_GO)):
            return usual
    return ""


def _written(waiting: WaitingWorker, score: str) -> bool:
    try:
        Path(f"/proc/{waiting.started.process.pid}/oom_score_adj").write_text(score)
    except OSError:
        return False
    return True
