"""BatchNorm over a batch of which each rank has some rows: with the statistics of the whole batch."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import Function
from torch.nn import functional as F

from .group import Group
from .parts import Rows
from .passages import add, meet


def batch_norm(group: Group, rows: Rows, x: torch.Tensor, given: dict[str, Any]) -> torch.Tensor:
    """As F.batch_norm in training; the running statistics come to the same on all ranks."""
    count = x.numel() // x.shape[1] * sum(rows.sizes) // rows.sizes[group.rank]
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {tuple(x.shape)}")
    mean, var = _statistics(group, x, count)
    made: torch.Tensor = _BatchNorm.apply(  # type: ignore[no-untyped-call]
        group, count, given["eps"], mean, var, x, given["weight"], given["bias"]
    )
    with torch.no_grad():
        share = given["momentum"]
        for running, now in ((given["running_mean"], mean), (given["running_var"], var * (count / (count - 1)))):
            if running is not None:
                running.mul_(1 - share).add_(now.to(running.dtype), alpha=share)
    return made


def _statistics(group: Group, x: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of all rows, from each rank's mean and variance: a sum of squares would lose what is small beside the mean."""
    with torch.no_grad():
        var, mean = torch.var_mean(x if x.dtype == torch.double else x.float(), _but_channels(x), correction=0)
        own = torch.full_like(mean, x.numel() // x.shape[1])
        means, variances, counts = torch.stack(group.all_gather(torch.stack([mean, var, own]))).unbind(1)
        mean = (means * counts).sum(0) / count
        return mean, ((variances + (means - mean).square()) * counts).sum(0) / count


def _but_channels(x: torch.Tensor) -> list[int]:
    return [dim for dim in range(x.dim()) if dim != 1]


def _wide(t: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return t.view(1, -1, *[1] * (x.dim() - 2))


class _BatchNorm(Function):
    """Keeps its input alone, as torch's own does."""

    @staticmethod
    def forward(ctx: Any, group: Group, count: int, eps: float, mean: Any, var: Any, x: Any, w: Any, b: Any) -> Any:
        ctx.group, ctx.count, ctx.eps = group, count, eps
        ctx.save_for_backward(mean, var, x, w, b)
        return F.batch_norm(x, mean, var, w, b, False, 0.0, eps)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        mean, var, x, w, b = ctx.saved_tensors
        if torch.is_grad_enabled():  # of which a gradient will be taken: then of all that the statistics come from
            found = _again(ctx, x, w, b, grad)
        else:
            found = _gradients(ctx, mean, var, x, w, b, grad)
        return *[None] * 5, *found


def _gradients(ctx: Any, mean: Any, var: Any, x: Any, w: Any, b: Any, grad: Any) -> tuple[Any, Any, Any]:
    scale, dims = (var + ctx.eps).rsqrt(), _but_channels(x)
    normal = (x - _wide(mean, x)).mul_(_wide(scale, x))
    own = torch.stack([grad.sum(dims, dtype=mean.dtype), (grad * normal).sum(dims, dtype=mean.dtype)])
    sums = own.clone()
    ctx.group.all_reduce(sums)
    of_mean, of_scale = (sums / ctx.count).unbind()
    dx = grad - _wide(of_mean, x)
    dx -= normal.mul_(_wide(of_scale, x))
    dx *= _wide(scale if w is None else scale * w, x)
    return dx.to(x.dtype), None if w is None else own[1].to(w.dtype), None if b is None else own[0].to(b.dtype)


def _again(ctx: Any, x: Any, w: Any, b: Any, grad: Any) -> tuple[Any, Any, Any]:
    def met(t: torch.Tensor) -> torch.Tensor:
        return meet(ctx.group, [_wide(t / ctx.count, x)])[0]

    dims = _but_channels(x)
    far = x - met(add(ctx.group, x.sum(dims)))
    y = far * (met(add(ctx.group, far.square().sum(dims))) + ctx.eps).rsqrt()
    y = y if w is None else y * _wide(w, x)
    y = y if b is None else y + _wide(b, x)
    wanted = [t for t in (x, w, b) if t is not None and t.requires_grad]
    found = iter(torch.autograd.grad(y, wanted, grad, create_graph=True))
    dx, dw, db = (next(found) if t is not None and t.requires_grad else None for t in (x, w, b))
    return dx, dw, db
