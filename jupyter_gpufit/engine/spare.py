"""The spare: a process beside a kernel with torch imported, which forks a worker for each cell: it starts at once.

It holds no device and no CUDA context, and is no job: nobody counts it. Its price is memory, most of which its workers
share. So it is kept where there is much, and given up where that gets short or nobody has run a cell for long; where
memory runs out, it is the first that the system ends. It ends with its kernel; its workers do not.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..jobs.forking import KernelModules
from ..system.memory import all_memory, free_memory
from ..units import GiB
from .forks import ForkingProcess
from .local import WaitingWorker

SHORT = 2 * GiB  # of the host's memory, free; or a tenth of it, where that is more: a spare is given up
ENOUGH = 2  # times as much must be free before one is started
IDLE = 1800.0  # seconds without a cell, after which nobody waits for the next one
MOST_SPOILED = 4  # packages that cannot be imported ahead; with more, none is any more
LOOK = 10.0  # seconds between two looks
_FIRST_TO_GO = 1000  # the system's own measure of whom to end where memory runs out


class Spare:
    """At most one such process of a kernel."""

    def __init__(self, when: str, free: Callable[[], int] = free_memory) -> None:
        """`when`: the setting `spare_worker`."""
        self._when = when
        self._free = free
        self._lock = threading.Lock()  # between the cells and whoever looks after it
        self._process: ForkingProcess | None = None
        self._usual = ""  # what its workers are to be for the system
        self._wanted = 0.0  # when a cell was run for the last time
        self._imported = KernelModules(())  # by the notebook
        self._spoil: set[str] = set()  # packages that are not to be imported ahead
        self._ends = threading.Event()

    def offer(self, imported: KernelModules = KernelModules(())) -> None:  # noqa: B008 - frozen
        """A cell has ended, and people read now: have a spare, where one is wanted and there is room for it.

        `imported`: by the notebook; a worker will need it, too.
        """
        with self._lock:
            self._imported = imported
            self._have(os.environ)

    def offer_meanwhile(self, imported: KernelModules) -> None:
        """A cell goes on importing: let the spare do the same beside it, if there is a processor for that."""
        if len(os.sched_getaffinity(0)) > 1 and self._lock.acquire(blocking=False):
            try:
                self._imported = imported
                self._have(os.environ)
            finally:
                self._lock.release()

    def take(
        self, env: Mapping[str, str], python: str = sys.executable, package: str = "", needs: Iterable[str] = ()
    ) -> WaitingWorker:
        """A worker: the spare's, where there is or may be one, or else one that imports torch itself.

        `needs`: packages that it will import, as far as one sees.
        """
        with self._lock:
            if python == sys.executable and dict(env) == dict(os.environ) and (process := self._have(env)) is not None:
                return process.worker(self._usual, needs)
        return WaitingWorker.spawn(env, python, package=package)

    def dismiss(self) -> None:
        with self._lock:
            self._dismiss()

    def _have(self, env: Mapping[str, str]) -> ForkingProcess | None:
        """The one that serves; a new one in the place of one that does not."""
        if self._when == "never" or (self._when == "auto" and "torch" not in sys.modules):
            return None
        self._wanted = time.monotonic()
        if self._process is not None and self._process.usable(env, self._imported.variables):
            self._import_ahead(self._process)
            return self._process
        self._dismiss()
        if self._when == "always":
            self._process = ForkingProcess(env, self._spoiled)
        elif self._free() >= ENOUGH * _short():
            self._process = ForkingProcess(env, self._spoiled)
            self._usual = _first_to_go(self._process.process.pid)
            self._ends = threading.Event()
            threading.Thread(target=self._look_after, args=(self._ends,), name="gpufit-spare", daemon=True).start()
        if self._process is not None:
            self._import_ahead(self._process)
        return self._process

    def _import_ahead(self, process: ForkingProcess) -> None:
        if len(self._spoil) < MOST_SPOILED:
            kept = tuple(name for name in self._imported.modules if name.partition(".")[0] not in self._spoil)
            process.import_ahead(replace(self._imported, modules=kept))

    def _spoiled(self, package: str) -> None:
        """By a package that it had imported ahead: have another one, for the next cell."""
        with self._lock:
            self._spoil.add(package)
            self._have(self._process.env if self._process is not None else os.environ)

    def _dismiss(self) -> None:
        self._ends.set()
        self._usual = ""
        process, self._process = self._process, None
        if process is not None:
            process.dismiss()

    def _look_after(self, ends: threading.Event) -> None:
        """Give it up where memory is short, or where nobody runs cells any more."""
        while not ends.wait(LOOK):
            if self._free() < _short() or time.monotonic() - self._wanted > IDLE:
                with self._lock:
                    if not ends.is_set():
                        self._dismiss()


def _short() -> int:
    return max(SHORT, all_memory() // 10)


def _first_to_go(pid: int) -> str:
    """What it was before; nothing where that may not be said."""
    with suppress(OSError):
        usual = Path("/proc/self/oom_score_adj").read_text()
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(_FIRST_TO_GO))
        return usual
    return ""
