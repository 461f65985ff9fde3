"""A cell's last numbers: what its loops left behind, and what its variables are when it has ended.

Who looks once a second misses what came after the last look, and all of a cell that is quicker. So the rewritten
program calls here when the loops of a function are over, whose variables are gone a moment later.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from ..program.reading.cell import names_of
from .main_thread import MainThread
from .metrics import MOST, is_metric, numbers_among, numbers_in, on_a_gpu
from .own_lock import OwnLock

FREE, SHARE = 0.05, 0.005  # seconds that looking at one function may take, and of all the time since then
SMALL = 4096  # bytes: what may be kept of a GPU's memory for one number
MOST_CODES = 1000


class Finals:
    """Of one cell; in the main thread only."""

    def __init__(self, main: MainThread, reading: OwnLock, seen: dict[str, CodeType]) -> None:
        """`reading`: held by whoever reads a frame's variables; `seen`: whose each number was when it was looked at."""
        self._main, self._reading, self._seen = main, reading, seen
        self._began = time.monotonic()
        self._took: dict[CodeType, float] = {}  # seconds of looking
        self._left: dict[str, dict[CodeType, Any]] = {}  # by the loops of each; numbers, or tensors on a GPU

    def loop_over(self, frame: FrameType) -> None:
        """The loops of this activation are over. A function that is called without end is not looked at each time."""
        if not self._main.is_here():
            return
        began, took = time.monotonic(), self._took.get(frame.f_code, 0.0)
        if took > FREE + SHARE * (began - self._began):
            return
        with self._main.ours():
            self._look_at(frame)
        if len(self._took) > MOST_CODES:  # code that is made again and again
            self._took.clear()
            self._left.clear()
        self._took[frame.f_code] = took + time.monotonic() - began

    def _look_at(self, frame: FrameType) -> None:
        if not self._reading.acquire(blocking=False):
            return  # it is garbage that ends, in the midst of our own saving
        try:
            # The objects are the user's, and may be half made: no reason to end a training.
            with suppress(Exception):
                found = numbers_in(frame)
                far = {name: one.detach() for name, one in found.elsewhere.items() if _is_small(one)}
                for name, value in {**found.logged, **found.own, **far}.items():
                    self._left.setdefault(name, {})[frame.f_code] = value
        finally:
            self._reading.release()

    def at_the_end(self, text: str, namespace: Mapping[str, Any]) -> dict[str, float]:
        """The cell has ended: of the variables that it gave a value, what people will find there."""
        left = {name: value for name, by in self._left.items() for value in self._of_whom_was_seen(name, by)}
        with suppress(Exception):
            names = names_of(text)
            read, written = (
                _numbers({name: namespace[name] for name in of if name in namespace})
                for of in (names.reads, names.writes)
            )
            others = {name for name, code in dict(self._seen).items() if code.co_flags & inspect.CO_OPTIMIZED}
            read = {name: value for name, value in read.items() if name not in others}
            left = {**read, **left, **written}
        self._left, found = {}, {}
        self._seen.clear()
        for name, value in left.items():
            with suppress(Exception):  # a device that failed has no numbers any more
                found[name] = float(value)
        return found

    def _of_whom_was_seen(self, name: str, left: Mapping[CodeType, Any]) -> list[Any]:
        """A check's or an evaluation's `loss` is not that of the training, which was shown: of two, neither."""
        if (code := self._seen.get(name)) is not None:
            return [left[code]] if code in left else []
        return [*left.values()] if len(left) == 1 else []


def told(last: Mapping[str, float], before: Sequence[str]) -> dict[str, float]:
    """Of a cell's last numbers those that were told `before`, and others that are a metric."""
    names = [name for name in before if name in last]
    names += [name for name in last if is_metric(name) and name not in before]
    return {name: last[name] for name in names[:MOST]}


def _numbers(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {**numbers_among(variables), **dict(on_a_gpu(variables))}


def _is_small(tensor: Any) -> bool:
    """Whether nothing large is kept with it, of which it is a part."""
    return int(tensor.untyped_storage().nbytes()) <= SMALL
