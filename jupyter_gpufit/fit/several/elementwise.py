"""Whether an optimizer's step of a part of a parameter is that part of its step: tried, with its own settings."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves

_SHAPE, _CUT, _STEPS = (4, 6), 10, 3


def is_elementwise(optimizer: Optimizer) -> bool:
    """Of one that asks nothing else of its parameters than their numbers and gradients, one by one."""
    own = {name: value for name, value in vars(optimizer).items() if name not in ("state", "param_groups", "defaults")}
    if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(own)):
        return False  # it has them in another place, too
    with no_dispatch(), torch._C.DisableTorchFunction(), torch.random.fork_rng(devices=[]):
        try:
            return all(_of_group(optimizer, group) for group in optimizer.param_groups)
        except Exception:  # it is made for something else
            return False


def _of_group(optimizer: Optimizer, group: dict[str, Any]) -> bool:
    drawn = torch.Generator().manual_seed(0)
    whole = torch.randn(_SHAPE, generator=drawn, dtype=torch.double)
    grads = [torch.randn(_SHAPE, generator=drawn, dtype=torch.double) for _ in range(_STEPS)]
    one = [whole.clone()]
    parts = [whole.view(-1)[:_CUT].clone(), whole.view(-1)[_CUT:].clone()]
    settings = copy.deepcopy({name: value for name, value in group.items() if name != "params"})
    _steps(optimizer, settings, one, [[grad] for grad in grads])
    _steps(optimizer, settings, parts, [[grad.view(-1)[:_CUT], grad.view(-1)[_CUT:]] for grad in grads])
    moved = not torch.equal(one[0], whole)
    return moved and torch.allclose(one[0].view(-1), torch.cat(parts), rtol=1e-12, atol=1e-12)


def _steps(
    optimizer: Optimizer, settings: Any, params: list[torch.Tensor], grads: Iterator[Any] | Sequence[Any]
) -> None:
    tried = object.__new__(type(optimizer))
    tried.__dict__ = {**vars(optimizer), "state": defaultdict(dict)}
    tried.param_groups = [{**copy.deepcopy(settings), "params": params}]
    step: Callable[..., Any] = type(optimizer).step
    step = getattr(step, "__wrapped__", step)  # without the hooks that others have on each step
    for grad in grads:
        for p, g in zip(params, grad, strict=True):
            p.grad = g.clone()
        step(tried)
