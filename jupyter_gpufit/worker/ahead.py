"""Imports ahead of the cells: what a notebook has imported, in the spare that forks its workers.

A library that thousands of notebooks import takes seconds. Here it is imported once, while people read, and not for
each cell twice: for its trial run and for itself. It must come out as it would have in the worker: a package that asks
for what only the device can tell, that cannot be imported here, or of which forked processes would share a part, spoils
the spare. The kernel hears of it, and has another one, which leaves that package to the workers.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import NoReturn

from ..cuda.surface.ahead import asked_ahead
from ..jobs.forking import KernelModules
from ..system.collecting import for_good
from ..system.in_common import InCommon, in_common
from .shell import WorkerShell

LONGEST = 60  # seconds for one package, on a machine that may be busy; who wants a worker waits for no longer


class Ahead:
    """What is yet to be imported, a package at a time."""

    def __init__(self) -> None:
        self.spoiled_by = ""  # a package
        self._wanted: dict[str, list[str]] = {}  # modules, by their packages
        self._capability: tuple[int, int] | None = None
        self._had: InCommon | None = None

    def want(self, imported: KernelModules) -> None:
        self._capability = imported.capability
        for name in imported.modules:
            if name not in sys.modules:
                self._wanted.setdefault(name.partition(".")[0], []).append(name)

    def __bool__(self) -> bool:
        return bool(self._wanted) and not self.spoiled_by

    def import_those(self, packages: Collection[str]) -> None:
        """Those of these that are yet to be imported."""
        for package in [one for one in self._wanted if one in packages]:
            if package in self._wanted and not self.spoiled_by:
                self.import_next(package)

    def import_next(self, package: str = "") -> None:
        """The modules of this package, or of the next."""
        WorkerShell.prepare()  # libraries ask, when they are imported, whether this is a notebook
        before = self._had = in_common(self._had)  # now: whoever asks for a worker has sent descriptors
        package = package or next(iter(self._wanted))
        modules = self._wanted.pop(package)
        if not _imported(modules, self._capability) or in_common(before).is_more_than(before):
            self.spoiled_by = package


def _imported(modules: Sequence[str], capability: tuple[int, int] | None) -> bool:
    """Whether they are here, and are what they would be in the worker."""
    with for_good(), asked_ahead(capability) as unanswered, _in_time():
        try:
            for name in modules:
                import_module(name)
        except BaseException:  # a module may also try to end the process
            return False
    return not unanswered


@contextmanager
def _in_time() -> Iterator[None]:
    def too_late(number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, too_late)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
