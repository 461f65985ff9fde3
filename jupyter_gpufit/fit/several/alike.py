"""Whether all ranks have the same: what they give to a model, and the gradients that they step by.

Ranks run the same cell, and what they compute alike must be alike. A cell that draws from a generator of its own, or
reads a clock, would train on a batch of which no two ranks have the same; so a few sums travel with each call.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer

from ...errors import RanksDiffer
from .group import Group, ShapesOnly
from .state import generator_state

_MOST = 32  # numbers of one call; ranks that differ must still send as many as the others
_FIRST, _THEN = 3, 25  # steps of an optimizer that are looked at: the first ones, and each so-manieth
_NEAR = 1e-4  # of a gradient's norm; kernels of a GPU may add in another order each time


def same_call(group: Group, what: str, names: Sequence[str], tensors: Sequence[torch.Tensor]) -> None:
    """All ranks call this model with these."""
    if isinstance(group, ShapesOnly):
        return
    names, tensors = names[: _MOST - 3], tensors[: _MOST - 3]
    shapes = repr((what, [(name, tuple(t.shape), t.dtype) for name, t in zip(names, tensors, strict=True)]))
    own = [_number(shapes), float(zlib.crc32(generator_state())), *map(_sum, tensors)]
    where = tensors[0].device if tensors else torch.device("cpu")
    sent = torch.tensor(own + [0.0] * (_MOST - len(own)), dtype=torch.double, device=where)
    said = torch.stack(group.all_gather(sent)).cpu()
    _compare(said, [f"what is called: {what}, or the shapes that it is given", "torch's random numbers"], 0.0)
    _compare(said[:, 2:], [f"{name}, given to {what}" for name in names], 1e-9)


def _number(text: str) -> float:
    return float(zlib.crc32(text.encode()))


def _sum(t: torch.Tensor) -> float:
    """Of values by their places: a batch in another order is another one."""
    flat = t.detach().reshape(-1)
    if flat.is_complex():
        flat = torch.view_as_real(flat).reshape(-1)
    places = torch.arange(1, flat.numel() + 1, device=flat.device, dtype=torch.double).remainder_(8191.0)
    found = float((flat.double() * places).sum())
    return found if math.isfinite(found) else -1.0


def _compare(said: torch.Tensor, names: Sequence[str], near: float) -> None:
    for at, name in enumerate(names):
        column = said[:, at]
        differ = (column - column[0]).abs() > near * column[0].abs().clamp(min=1.0)
        if bool(differ.any()):
            raise RanksDiffer(name, int(differ.nonzero()[0]))


class StepsAlike:
    """Called before each step of an optimizer: its gradients must be the same on all ranks."""

    def __init__(self, group: Group, names: MutableMapping[torch.Tensor, str]) -> None:
        self._group, self._names = group, names
        # By what they are: an id is used again, by one rank sooner than by another.
        self._steps: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()

    def __call__(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if isinstance(self._group, ShapesOnly):
            return
        steps = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if steps > _FIRST and steps % _THEN:
            return
        of_groups = [p for group in optimizer.param_groups for p in group["params"]]
        found = [p for p in of_groups if p.grad is not None]
        if not found:
            return
        norms = torch.stack([_norm(p.grad).to(found[0].device) for p in found])
        said = torch.stack(self._group.all_gather(norms)).cpu()
        finite = said.isfinite()
        said = torch.where(finite, said, -1.0)
        at = {id(p): number for number, p in enumerate(of_groups)}
        names = [self._names.get(p) or f"parameter {at[id(p)]} of the optimizer" for p in found]
        _compare(said, [f"the gradient of {name}" for name in names], _NEAR)


def _norm(grad: Any) -> torch.Tensor:
    values = grad.coalesce().values() if grad.is_sparse else grad
    norm: torch.Tensor = torch.linalg.vector_norm(values.detach(), dtype=torch.promote_types(grad.dtype, torch.float32))
    return norm.double()
