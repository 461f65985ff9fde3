"""Optimizer steps: what they label, when there were enough, and what one of them costs.

The count is per optimizer: with one for all, a GAN would stop in its first iteration. The child ends from inside the
hook of a step; an exception would be caught by the user's `except:` and the loop would go on.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import (
    _foreach_supported_types,
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from ...cuda.stand_in.device import on_stand_in
from ...fit.clock import clock
from ...fit.ladder import is_paged, moved
from ...fit.several.shards import lies_here
from ...fit.several.split import kept_here
from ...system.objects import but_tuples
from ..reckoning.record import Kind
from .books import Books
from .paths import Paths

MANY = 25  # evaluations of a closure; LBFGS has 20 to 25 in a step unless it is told otherwise
_BY_HAND = 0  # in place of an optimizer's id


class RunningLoops(Protocol):
    """What is asked of the loops that are being cut; see loops.py."""

    @property
    def active(self) -> Sized: ...
    def steps_in_this_iteration(self) -> int: ...


class Mark(NamedTuple):
    """What was counted until the end of a step."""

    flops: int = 0
    samples: int = 0
    calls: int = 0  # of modules
    again: int = 0  # flops of what was computed once more in backward
    moved: int = 0  # bytes between device and host
    seconds: float = 0.0  # on the trial run's clock
    waited: float = 0.0  # of them, for copies


@dataclass
class StepsTaken:
    """One optimizer's steps."""

    elements: int  # in its parameters
    marks: list[Mark] = field(default_factory=list)  # after each


class Steps:
    def __init__(self, books: Books, paths: Paths, steps: int, stop: Callable[[], None]) -> None:
        self.books, self.paths, self.steps, self.stop = books, paths, steps, stop
        self.loops: RunningLoops | None = None  # which counts by us
        self.samples = 0  # that data loaders gave
        self.largest_batch = 0  # of theirs
        self.taken: dict[int, StepsTaken] = {}
        self._known: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._computes: Optimizer | None = None  # calls a closure of the cell's, again and again, in one step
        self._evaluations = 0  # of that closure

    def optimizers(self) -> list[Optimizer]:
        # A wrapper's own step never counts; Accelerate's is an Optimizer too.
        return [one for one in list(self._known) if not hasattr(one, "optimizer")]

    def on_device(self) -> list[Optimizer]:
        """Those that train something there: others, of earlier cells, have no part in this."""
        return [one for one in self.optimizers() if any(map(on_stand_in, _parameters_of(one)))]

    def counts(self) -> dict[int, int]:
        return {key: len(taken.marks) for key, taken in self.taken.items()}

    def find_all(self) -> None:
        """Those that exist; one pass over all objects, since they may be anywhere."""
        self._known.update(one for one in but_tuples() if issubclass(type(one), Optimizer))

    def begin(self) -> None:
        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        self.books.backward_ended = self._by_hand
        _take_foreach()
        for name in ("__init__", "__setstate__"):
            setattr(Optimizer, name, self._noticing(getattr(Optimizer, name)))

    def _noticing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def made(optimizer: Optimizer, *args: Any, **kwargs: Any) -> None:
            real(optimizer, *args, **kwargs)
            self._known.add(optimizer)

        return made

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        if hasattr(optimizer, "optimizer"):
            return None
        self._known.add(optimizer)
        for group in optimizer.param_groups:
            for p in group["params"]:
                self._label(p, "parameter")
                if p.grad is not None:
                    self._label(p.grad, "gradient")
        self.books.phase = "optimizer"
        self._computes, self._evaluations = None, 0
        if callable(closure := kwargs.get("closure", args[1] if len(args) > 1 else None)):
            self._computes, evaluated = optimizer, self._evaluated(closure)
            return (args[0], evaluated, *args[2:]) if len(args) > 1 else args, kwargs | (
                {"closure": evaluated} if "closure" in kwargs else {}
            )
        return None

    def _evaluated(self, closure: Callable[[], Any]) -> Callable[[], Any]:
        """With a look whether there were enough: one step of LBFGS may evaluate it thousands of times."""

        def evaluate() -> Any:
            loss = closure()
            self._evaluations += 1
            if self._evaluations >= MANY * self.steps:
                self.end_in_step()
            return loss

        return evaluate

    def end_in_step(self) -> None:
        """In the midst of one that has evaluated its closure: as often as makes so many steps of the usual kind.

        Returns where nothing was evaluated twice.
        """
        if self._computes is not None and self._evaluations >= self.steps:
            for _ in range(self.steps):
                self._count(self._computes)
            self.stop()

    def _label(self, t: torch.Tensor, kind: Kind) -> None:
        """Where a device has a part of it alone, the whole is there for an operation at a time."""
        own = lies_here(t)
        if own is not t:
            self.books.label(t, "workspace")
        self.books.label(own, kind)

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if hasattr(optimizer, "optimizer"):
            return
        self._computes = None
        self.books.phase = "forward"
        for state in kept_here(optimizer):
            for value in state.values() if isinstance(state, dict) else ():
                for t in value if isinstance(value, (list, tuple)) else (value,):
                    self.books.label(t, "optimizer state")
        self._count(optimizer)
        if self._enough():
            self.stop()

    def _by_hand(self, first: int) -> None:
        """A backward where no optimizer of torch's is: the cell takes its step itself, or its library does (fastai)."""
        if not self.on_device():
            self.books.label_born_since(first, "gradient")
            self._mark(_BY_HAND, lambda: 0)
            if self._enough():
                self.stop()

    def _count(self, optimizer: Optimizer) -> None:
        groups = optimizer.param_groups
        self._mark(id(optimizer), lambda: sum(p.numel() for group in groups for p in group["params"]))

    def _mark(self, key: int, elements: Callable[[], int]) -> None:
        self.books.step += 1
        if key not in self.taken:
            self.taken[key] = StepsTaken(elements())
        self.taken[key].marks.append(
            Mark(
                self.books.flops,
                self.samples,
                len(self.paths.roots),
                self.books.flops_again,
                moved().moved,
                clock.now,
                clock.waited,
            )
        )

    def _enough(self) -> bool:
        """Whether to end in this step. The cell's own loops are left by themselves, but not one of a library."""
        assert self.loops is not None
        if self.loops.active:
            return self.loops.steps_in_this_iteration() > 5 * self.steps
        counts = self.counts()
        alive = [counts.get(id(one), 0) for one in self.on_device() or self.optimizers()]
        return min(alive, default=0) >= self.steps or (self.books.step >= 5 * self.steps)

    # What one step costs: from one step to the next of the optimizer with the most parameters

    def flops_per_step(self) -> int | None:
        between = self._between()
        return None if between is None else between[1].flops - between[0].flops

    def flops_again_per_step(self) -> int:
        between = self._between()
        return 0 if between is None else between[1].again - between[0].again

    def moved_per_step(self) -> int:
        between = self._between()
        return 0 if between is None else between[1].moved - between[0].moved

    def seconds_per_step(self) -> float:
        between = self._between()
        return 0.0 if between is None else between[1].seconds - between[0].seconds

    def waited_per_step(self) -> float:
        between = self._between()
        return 0.0 if between is None else between[1].waited - between[0].waited

    def samples_per_step(self) -> int | None:
        between = self._between()
        if between is None:
            return None
        (_, samples, calls, *_), (_, samples_then, calls_then, *_) = between
        if samples_then > samples:
            return samples_then - samples
        called = [(root, batch) for root, grad, batch in self.paths.roots[calls:calls_then] if grad and batch]
        models, batches = {root for root, _ in called}, [batch for _, batch in called]
        if len(models) == 1:
            return sum(batches)
        in_a_row = len(models) == len(called) and len(set(batches)) == 1  # an encoder and its head
        return batches[0] if in_a_row else None

    def _between(self) -> tuple[Mark, Mark] | None:
        main = max(self.taken.values(), key=lambda taken: taken.elements, default=None)
        if main is None:
            return None
        marks = [Mark(), *main.marks]
        if is_paged() and len(marks) > 3:
            return marks[2], marks[3]  # the first that knows what the one before it used
        return (marks[1], marks[2]) if len(marks) > 2 else (marks[0], marks[1])


def _take_foreach() -> None:
    """Let optimizers take the foreach kernels, as on a GPU; the loop would hide a temporary of all parameters."""
    from torch.utils import _foreach_utils

    fake = torch._subclasses.fake_tensor.FakeTensor
    known: tuple[Any, ...] = (_foreach_supported_types, _foreach_utils._foreach_supported_types)
    for types in known:
        types.append(fake)


def _parameters_of(optimizer: Optimizer) -> Iterator[Any]:
    for group in optimizer.param_groups:
        yield from group["params"]
