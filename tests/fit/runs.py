"""Trainings with and without a plan, and whether they came to the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn

from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.units import looks_of

from .models import OPTIMIZERS, batch, loss_of

Step = Callable[[nn.Module, torch.optim.Optimizer], torch.Tensor]


def plain(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    words = batch()
    loss = loss_of(model(words), words)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def trained(
    make: Callable[[], nn.Module],
    paths: Iterable[str] | None,
    step: Step = plain,
    optimizer: str = "AdamW",
    steps: int = 3,
) -> dict[str, Any]:
    """All that a training leaves; `paths`: the blocks that are computed again."""
    torch.manual_seed(0)
    model = make()
    chosen = OPTIMIZERS[optimizer](model.parameters())
    around = nullcontext() if paths is None else recompute.around({looks_of(model): tuple(paths)})
    with around:
        losses = [step(model, chosen).item() for _ in range(steps)]
    state = {f"optimizer {k}": v for k, v in _flat(chosen.state_dict()["state"])}
    grads = {f"grad {name}": p.grad for name, p in model.named_parameters() if p.grad is not None}
    return {**model.state_dict(), **grads, **state, "losses": losses, "generator": torch.get_rng_state()}


def _flat(state: Mapping[Any, Any]) -> Iterable[tuple[str, Any]]:
    for key, values in state.items():
        for name, value in values.items():
            yield f"{key} {name}", value


def differ(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """What is not the same to the bit."""
    names = sorted(one.keys() | other.keys())
    return [name for name in names if not _same(one.get(name), other.get(name))]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.dtype != b.dtype or a.shape != b.shape or not a.is_floating_point():
            return torch.equal(a, b)
        return torch.equal(a.isnan(), b.isnan()) and torch.equal(a.nan_to_num(), b.nan_to_num())
    return bool(a == b)
