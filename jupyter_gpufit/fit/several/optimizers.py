"""The optimizers of a run whose state is split over the ranks, and what is done around each step of them (split.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary, ref

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .elementwise import has_step_hooks, is_elementwise
from .gradients import gradients_in
from .group import Group
from .shards import Shards
from .split import SplitOptimizer, StatePart

LOST = (
    "What optimizers kept for {} parameters is gone with another device's process, and is made anew by the next step."
    " What they kept for others is as it was."
)

LOST_GRADIENTS = "The gradients of {} parameters are gone with another device's process: they are None now."


@contextmanager
def states_split(
    group: Group, say: Callable[[str], None], shards: Shards | None = None
) -> Iterator[Callable[..., None]]:
    """Split what optimizers keep; who goes on alone calls what is given here first."""
    states = SplitStates(group, say, shards)
    before = register_optimizer_step_pre_hook(states.before)
    after = register_optimizer_step_post_hook(states.after)
    real = torch.autograd.profiler.record_function

    class Watched(real):  # type: ignore[misc, valid-type]
        """Torch has this around each step: the only place that hears of one that failed."""

        def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
            super().__exit__(kind, error, traceback)
            if error is not None and self.name.startswith("Optimizer.step#"):
                states.failed(error)

    torch.autograd.profiler.record_function = Watched  # type: ignore[misc]
    try:
        yield states.leave
    finally:
        torch.autograd.profiler.record_function = real  # type: ignore[misc]
        before.remove()
        after.remove()
        if group.rank == 0:  # whose state is the job's
            states.leave(ends=True)


class SplitStates:
    """Of all optimizers of a run; its `before` and `after` are called around each step."""

    def __init__(self, group: Group, say: Callable[[str], None], shards: Shards | None = None) -> None:
        self._group, self._say, self._shards = group, say, shards
        self._parts: WeakValueDictionary[int, StatePart] = WeakValueDictionary()
        self._numbers = count()
        self._known: WeakKeyDictionary[Optimizer, SplitOptimizer | None] = WeakKeyDictionary()
        group.offer(self._find)

    def before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if self._group.size == 1 or any(map(callable, (*args, *kwargs.values()))):
            return
        if optimizer not in self._known:
            splits = is_elementwise(optimizer)
            made = SplitOptimizer(self._group, ref(optimizer), self._parts, self._numbers, self._shards)
            self._known[optimizer] = made if splits else None
        split = self._known[optimizer]
        if split is None:
            return
        if split.steps:  # as where a step calls another one
            split.end()
        self._meet()  # whoever reads of the last step has done so
        if split.must_come_home():
            split.come_home()
            self._meet()
        if has_step_hooks(optimizer):  # they would see views
            split.leave(ends=True)
            self._known[optimizer] = None
            return
        split.begin()

    def _meet(self) -> None:
        self._group.all_reduce(torch.zeros(1))

    def after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        split = self._known.get(optimizer)
        if split is not None and split.steps:
            split.end()

    def failed(self, error: BaseException) -> None:
        """A step was left midway. Where all ranks meet the same error, the cell may catch it and go on."""
        for split in list(self._known.values()):
            if split is not None and split.steps:
                split.end(alone=not isinstance(error, Exception) or isinstance(error, torch.OutOfMemoryError))

    def leave(self, *, ends: bool = False) -> None:
        """The run ends here, or goes on alone: everything whole, also where a step was left midway."""
        lost = 0
        for split in list(self._known.values()):
            if split is not None:
                if split.steps:
                    split.end(alone=True)
                lost += split.leave(ends=ends)
        self._known.clear()
        if lost:
            self._say(LOST.format(lost))
        if self._shards is not None:
            gradients_in(self._shards).forget_unused()
            if gone := self._shards.leave():
                self._say(LOST_GRADIENTS.format(gone))

    def _find(self, number: int, name: str) -> torch.Tensor | None:
        if not name:
            return self._shards.find(number) if self._shards is not None else None
        part = self._parts.get(number)
        return part.values.get(name) if part is not None else None
