"""Losses, sums and means over a batch of which each rank has some rows: those of the whole batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from .group import Group
from .parts import Rows, rows_of
from .passages import add

_BY_CLASS = ("cross_entropy", "nll_loss")  # divided by the weights of the targets that count
_BY_NUMBER = (  # divided by the number of their elements
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "kl_div",
    "poisson_nll_loss",
    "soft_margin_loss",
)


def is_loss(name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether it is one that is understood here; what is not is computed from whole batches."""
    if name not in _BY_CLASS + _BY_NUMBER or not func.__module__.startswith("torch.nn"):
        return False
    given = bound(func, args, kwargs)
    first, second = list(given.values())[:2]
    if given.get("size_average") is not None or given.get("reduce") is not None:
        return False
    rows = rows_of(first)
    if rows is None or rows_of(second) is None or given["reduction"] not in ("mean", "sum", "batchmean"):
        return False
    if not rows.sizes and name in _BY_NUMBER:
        return False
    return name in _BY_CLASS or first.shape == second.shape  # else pairs of samples are compared


def loss(group: Group, name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> torch.Tensor:
    """What one device would compute, and each rank's part of its gradient."""
    given = bound(func, args, kwargs)
    if given["reduction"] == "sum":
        return add(group, func(**given))
    if name in _BY_NUMBER:
        return mean(group, func(**given), rows_of(next(iter(given.values()))))
    return _by_class(group, func, given)


def mean(group: Group, own: torch.Tensor, rows: Rows | None) -> torch.Tensor:
    """The mean over all rows, from that over one's own."""
    assert rows is not None and rows.sizes
    return add(group, own * (rows.sizes[group.rank] / sum(rows.sizes)))


def _by_class(group: Group, func: Callable[..., Any], given: dict[str, Any]) -> torch.Tensor:
    """By sums, since a rank may have no target that counts."""
    total = func(**{**given, "reduction": "sum"})
    dtype = torch.promote_types(total.dtype, torch.float32)  # half precision counts to 2048
    both = add(group, torch.stack([total.to(dtype), _count(given).to(dtype)]))
    found: torch.Tensor = (both[0] / both[1]).to(total.dtype)
    return found


def _count(given: dict[str, Any]) -> torch.Tensor:
    said, target = given["input"], given["target"]
    if target.is_floating_point():  # probabilities of classes
        classes = said.shape[1] if said.dim() > 1 else said.shape[0]
        return torch.tensor(said.numel() / classes, device=said.device)
    counts: torch.Tensor = target != given["ignore_index"]
    if given["weight"] is None:
        return counts.sum()
    weights: torch.Tensor = given["weight"].detach()[target.where(counts, 0)]
    weights = weights.where(counts, torch.zeros_like(weights))
    return weights.sum()


def bound(func: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    given = _signature(func).bind(*args, **kwargs)
    given.apply_defaults()
    return given.arguments


@cache
def _signature(func: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(func)
