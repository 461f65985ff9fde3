"""Says, unasked and once, that a training has had no safe point for long, and what stands in the way.

Not only when somebody waits for a checkpoint: by then hours may be spent that no checkpoint holds.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Protocol

import anyio

from .points import Points
from .whereabouts import chain_of

LONG = 30.0  # seconds without a safe point
EVERY = 5.0  # seconds between two looks


class Rewrites(Protocol):
    """A program that learns which functions take long: program's."""

    def took_long(self, code: CodeType, seconds: float) -> bool:
        """Note that a function takes that long; whether from its next call on it can be left midway."""


class Gaps:
    def __init__(
        self, points: Points, program: Rewrites, say: Callable[[str], None], long: float = LONG, every: float = EVERY
    ) -> None:
        self._points, self._program, self._say = points, program, say
        self._long, self._every = long, every
        self._said = False

    async def watch(self) -> None:
        """While the cell runs."""
        ident = threading.main_thread().ident
        assert ident is not None
        last = time.monotonic()
        while True:
            self._points.want_passed()
            await anyio.sleep(self._every)
            if self._points.passed:
                last = time.monotonic()
                continue
            if (gap := time.monotonic() - last) >= self._long:
                self._tell(ident, gap)

    def _tell(self, ident: int, gap: float) -> None:
        words = chain_of(ident)
        learned = [code for code in _codes(ident) if self._program.took_long(code, gap)]
        if self._said or not words:
            return
        self._said = True
        later = " From its next call on it can." if learned else ""
        self._say(
            f"No safe point for {gap:.0f} s: a checkpoint, a release or a move has to wait until there is one."
            f" What runs cannot be left midway: {words}.{later}"
        )


def _codes(ident: int) -> Iterator[CodeType]:
    frame: FrameType | None = sys._current_frames().get(ident)
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back
