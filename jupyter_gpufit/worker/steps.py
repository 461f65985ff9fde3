"""Counts optimizer steps, so that a running job shows how far it is without a line added to the cell."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StepCounter:
    """Rounds: one is over when an optimizer steps again that has stepped in it.

    So those that take turns (a GAN's) count once, and those that come one after another (a fold's, a trial's) go on.
    """

    def __init__(self, before: int = 0) -> None:
        self.step = before  # of the checkpoint that this run goes on from
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()  # in this round; a fold's is gone with the fold

    def start_at(self, step: int) -> None:
        """Go on counting from a checkpoint's."""
        self.step = step
        self._stepped.clear()

    @contextmanager
    def counting(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handle = register_optimizer_step_post_hook(self._count)
        try:
            yield
        finally:
            handle.remove()

    def _count(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if optimizer in self._stepped or not self._stepped:
            self.step += 1
            self._stepped.clear()
        self._stepped.add(optimizer)
