"""Sparse gradients taken as dense, an upper bound: fake tensors of them end the process."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
import torch.nn.functional as F
from torch.optim import Optimizer, SparseAdam

from .books import Books


def begin(books: Books) -> None:
    for name in ("embedding", "embedding_bag"):
        setattr(F, name, _dense(getattr(F, name), books))
    step = Optimizer.profile_hook_step(_step)
    step.hooked = True  # type: ignore[attr-defined]
    SparseAdam.step = step  # type: ignore[method-assign]


def _dense(real: Callable[..., Any], books: Books) -> Callable[..., Any]:
    position = real.__code__.co_varnames.index("sparse")

    @wraps(real)
    def embed(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("sparse") or args[position : position + 1] == (True,):
            books.notes["upper bound: sparse gradients taken as dense"] += 1
            args = (*args[:position], False, *args[position + 1 :])[: len(args)]
            kwargs = kwargs | ({} if len(args) > position else {"sparse": False})
        return real(*args, **kwargs)

    return embed


@torch.no_grad()
def _step(self: SparseAdam, closure: Callable[[], Any] | None = None) -> Any:
    """What it keeps is dense in any case; what it computes with is about as large as the gradient."""
    loss = None
    if closure is not None:
        with torch.enable_grad():
            loss = closure()
    for p in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        state["step"] += 1
        state["exp_avg"].add_(p.grad - state["exp_avg"])
    return loss
