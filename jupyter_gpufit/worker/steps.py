"""Counts optimizer steps, so that a running job shows how far it is without a line added to the cell."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class StepCounter:
    """The most steps that any one optimizer has taken; with several (a GAN), they go side by side."""

    def __init__(self, before: int = 0) -> None:
        self._before = before  # those up to the checkpoint that this run goes on from
        self._taken: dict[int, int] = {}

    @property
    def step(self) -> int:
        return self._before + max(self._taken.values(), default=0)

    def start_at(self, step: int) -> None:
        """Go on counting from a checkpoint's."""
        self._before = step

    @contextmanager
    def counting(self) -> Iterator[None]:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        handle = register_optimizer_step_post_hook(self._count)
        try:
            yield
        finally:
            handle.remove()

    def _count(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._taken[id(optimizer)] = self._taken.get(id(optimizer), 0) + 1
