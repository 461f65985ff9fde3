"""Counts optimizer steps, so that a running job shows how far it is without a line added to the cell."""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

from ..system.objects import kinds
from .iterations import Iterations

_LAST, _LEAST = 100, 2  # rounds that are timed, and without which nothing is said


class StepCounter:
    """Rounds: one is over when an optimizer steps again that has stepped in it.

    So those that take turns (a GAN's) count once, and those that come one after another (a fold's, a trial's) go on.
    """

    def __init__(self, before: int = 0) -> None:
        self.step = before  # of the checkpoint that this run goes on from
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # in this round; a fold's is gone with the fold
        self._has_optimizer: bool | None = None  # None: nobody has looked for one
        self.iterations = Iterations()
        self._begun = before
        self._ends: deque[float] = deque(maxlen=_LAST)  # of the last rounds, in seconds

    def start_at(self, step: int) -> None:
        """Go on counting from a checkpoint's."""
        self.step = self._begun = step
        self._stepped.clear()

    @property
    def by_loops(self) -> bool:
        """Whether the iterations of loops are the steps: no optimizer of torch's has stepped, and none is there."""
        if self._has_optimizer is None:
            self._has_optimizer = _an_optimizer_is_there()
        return not self._has_optimizer

    def reached(self, step: int) -> None:
        """As many iterations were made by now."""
        self.step = max(self.step, step)

    def finish(self) -> None:
        """The cell is over."""
        if self.by_loops:
            self.reached(self.iterations.last(self.step))

    @property
    def made(self) -> int:
        """Steps of this run."""
        return self.step - self._begun

    @property
    def seconds(self) -> float:
        """That a step takes, in the middle; 0: there were too few."""
        times = [after - before for before, after in pairwise(self._ends)]
        return median(times) if len(times) >= _LEAST else 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handle = register_optimizer_step_post_hook(self._count)
        try:
            yield
        finally:
            handle.remove()

    def _count(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._has_optimizer is False:
            self.step = self._begun  # the loops before it prepared something, and trained nothing
        self._has_optimizer = True
        if optimizer in self._stepped or not self._stepped:
            self.step += 1
            self._ends.append(time.monotonic())
            self._stepped.clear()
        self._stepped.add(optimizer)


def _an_optimizer_is_there() -> bool:
    """Whether this process has one: a first step may take minutes. Asked once, for it goes through all objects."""
    from torch.optim import Optimizer

    return any(issubclass(kind, Optimizer) for kind in kinds())
