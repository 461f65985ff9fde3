"""Micro-batches: a model computes its batch in parts, each of them again in backward. Not exact.

Where the cell calls a model, what it is given is cut along its first dimension, and what comes out is put together, so
that the cell's own loss sees the whole batch. Sums over the batch come out in another order, which is rounding; dropout
draws other numbers, and BatchNorm sees a part at a time, which is not: hence only for those who allow it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypedDict

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from ..plan import Facts, ModelPart, Notch
from ..units import looks_of
from .again import calls_through, computed_again

NAME = "micro-batches"
EXACT = False
STEEP = True
REPLACES: tuple[str, ...] = ()
MOST_PARTS = 16  # more would leave a device idle, and make a trial run as long as so many


class BatchCut(TypedDict):
    """What a notch says."""

    models: list[str]  # by their looks
    parts: int


def notches(facts: Facts) -> list[Notch]:
    """In two parts, in four, and so on."""
    models = _models(facts)
    smallest = min((model.batch for model in models), default=0)
    by_batch = any(part.by_batch for part in facts.parts if any(model.holds(part) for model in models))
    aside = ", of which BatchNorm sees one at a time" if by_batch else ""
    cut = BatchCut(models=[model.model for model in models], parts=0)
    counts = [1 << power for power in range(1, MOST_PARTS.bit_length()) if 1 << power <= smallest]
    return [Notch({**cut, "parts": count}, f"computing each batch in {count} parts{aside}") for count in counts]


def why_not(facts: Facts) -> str:
    """Why there is no notch."""
    roots = [part for part in facts.parts if not part.path and part.kept]
    bars = [part for part in facts.parts if any(part.bars(root) for root in roots)]
    if bars:
        return f"{bars[0].name} cannot run twice: {bars[0].why_not}"
    return "the batch is not given to a model as a tensor" if roots else "no model was seen to train"


def _models(facts: Facts) -> list[ModelPart]:
    """Those that the cell calls with more than one sample, and that may run twice."""
    roots = [part for part in facts.parts if not part.path and part.kept and part.batch > 1]
    return [root for root in roots if not any(part.bars(root) for part in facts.parts)]


@contextmanager
def around(part: BatchCut) -> Iterator[None]:
    """Cut what these models are given, wherever they are called for a training."""
    with calls_through(lambda real: _Calls(part, real).function()):
        yield


class _Calls(threading.local):
    """The calls of models in one thread."""

    def __init__(self, cut: BatchCut, real: Callable[..., Any]) -> None:
        self.cut, self.real = cut, real
        self.inside = False

    def function(self) -> Callable[..., Any]:
        def _call_impl(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if self.inside:
                return self.real(module, *args, **kwargs)
            if not torch.is_grad_enabled() or looks_of(module) not in self.cut["models"]:
                with self._within():
                    return self.real(module, *args, **kwargs)
            return self._in_parts(module, args, kwargs)

        return _call_impl

    @contextmanager
    def _within(self) -> Iterator[None]:
        before, self.inside = self.inside, True
        try:
            yield
        finally:
            self.inside = before

    def _in_parts(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        size = _batch_of((args, kwargs))
        sizes = [len(part) for part in torch.arange(size).chunk(self.cut["parts"])] if size > 1 else [size]
        made = [self._part(module, *_cut((args, kwargs), size, at, sizes)) for at in range(len(sizes))]
        return _together(made, sizes)

    def _part(self, module: nn.Module, args: Any, kwargs: Any) -> Any:
        return computed_again(module, args, kwargs, real=self.real, within=self._within)


def _batch_of(given: Any) -> int:
    """The first dimension of the first tensor that has one."""
    return next((t.shape[0] for t in tree_flatten(given)[0] if isinstance(t, torch.Tensor) and t.dim()), 0)


def _cut(given: Any, size: int, at: int, sizes: Sequence[int]) -> Any:
    """One part of all that has the batch's size; the rest is for every part."""

    def one(t: Any) -> Any:
        of_batch = isinstance(t, torch.Tensor) and t.dim() and t.shape[0] == size and len(sizes) > 1
        return t.split(list(sizes))[at] if of_batch else t

    return tree_map(one, given)


def _together(made: Sequence[Any], sizes: Sequence[int]) -> Any:
    """What one run would have returned."""
    if len(made) == 1:
        return made[0]
    leaves, spec = tree_flatten(made[0])
    columns = [leaves, *(tree_flatten(one)[0] for one in made[1:])]
    return tree_unflatten([_joined(parts, sizes) for parts in zip(*columns, strict=True)], spec)


def _joined(parts: Sequence[Any], sizes: Sequence[int]) -> Any:
    if all(isinstance(part, torch.Tensor) and part.dim() for part in parts):
        if [part.shape[0] for part in parts] == list(sizes):
            return torch.cat(list(parts))
    elif all(type(part) in (type(None), bool, int, float, str) and part == parts[0] for part in parts):
        return parts[0]
    raise RuntimeError(
        "The model returns something else than a value for each sample (a loss, say), which cannot be put together from"
        " parts of a batch."
    )
