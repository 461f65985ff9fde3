"""A tensor that was computed of leaves in a step or two, by what a gradient becomes on its way back to them.

`self.alpha = self.log_alpha.exp()`, `X = points.clone().unsqueeze(1)`: its graph cannot be copied. But where each
element of a leaf has a part in one element of the tensor at the most, the way back is one factor for each, whatever was
computed. They are found by asking autograd, and tried: only if they give the very bits that the graph gives does the
tensor go along with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .flowing import saves

MOST = 1 << 20  # elements of the tensor, and of its leaves
FEW = 64  # elements: autograd is asked for each
DIGIT = 4096  # of the number of an element's place: so small that no factor rounds one to the next
MOST_NODES = 4  # one or two operations: of a loss and its model nobody asks
TRIES = 32  # of two roundings where the graph has one, or the other way round, each finds out every second time ...
TRIES_OF_MANY = 2  # ... for one element


@dataclass(frozen=True)
class Slope:
    """What comes to a leaf of a gradient: `factors * gradient.flatten()[at]`."""

    leaf: torch.Tensor
    at: tuple[int, ...] | torch.Tensor  # tensors of many
    factors: tuple[float, ...] | torch.Tensor

    def of(self, grad: torch.Tensor) -> torch.Tensor:
        factors = torch.as_tensor(self.factors, dtype=grad.dtype, device=grad.device)
        at = torch.as_tensor(self.at, dtype=torch.int64, device=grad.device)
        return (factors * grad.flatten()[at]).to(self.leaf.dtype).view(self.leaf.size())


def slopes_of(t: torch.Tensor) -> tuple[list[Slope], bool] | None:
    """Of all leaves, and whether one backward uses it up; None where that is not all that there is to its graph."""
    if t.numel() > MOST or not t.is_floating_point() or t.retains_grad or t._backward_hooks:
        return None
    try:
        leaves, once = _leaves(t)  # fails where a node on the way is used up
        if not leaves or sum(leaf.numel() for leaf in leaves) > MOST:
            return None
        few = t.numel() <= FEW
        found = _asked_for_each(t, leaves) if few else _asked_by_digits(t, leaves)
        tries = TRIES if few else TRIES_OF_MANY
        return (found, once) if found is not None and all(_is_so(t, found) for _ in range(tries)) else None
    except (RuntimeError, NotImplementedError):
        return None


def sloped(value: torch.Tensor, slopes: list[Slope], once: bool) -> torch.Tensor:
    """The tensor again; `once`: one backward through it uses it up."""
    with torch.enable_grad():
        found: torch.Tensor = _Sloped.apply(value, slopes, once, *[slope.leaf for slope in slopes])  # type: ignore[no-untyped-call]
    found.data = value
    return found


class _Sloped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, slopes: list[Slope], once: bool, *leaves: Any) -> torch.Tensor:
        ctx.slopes, ctx.once = slopes, once
        if once:
            ctx.save_for_backward(value)  # so that torch says what it says where a graph is used up
        return value.clone(memory_format=torch.preserve_format)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        assert not ctx.once or ctx.saved_tensors
        return None, None, None, *[slope.of(grads[0]) for slope in ctx.slopes]


def _leaves(t: torch.Tensor) -> tuple[list[torch.Tensor], bool]:
    """Those that gradients come to, and whether a node has saved values; none where somebody's code is on the way."""
    found, once = list[torch.Tensor](), False
    todo, seen = [t.grad_fn], set[Any]()
    while todo:
        node: Any = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > MOST_NODES:
            return [], False
        ours = isinstance(node, _Sloped._backward_cls)
        if isinstance(node, torch.autograd.function.BackwardCFunction) and not ours:
            return [], False
        once = once or (bool(node.saved_tensors) if ours else saves(node))
        if hasattr(node, "variable"):
            if node.variable._backward_hooks or node.variable._post_accumulate_grad_hooks:
                return [], False  # to ask would run them
            found.append(node.variable)
        todo += [following for following, _ in node.next_functions]
    return found, once


def _asked_for_each(t: torch.Tensor, leaves: list[torch.Tensor]) -> list[Slope] | None:
    rows = []
    for place in range(t.numel()):
        only = torch.zeros_like(t)
        only.view(-1)[place] = 1
        rows.append(_through(t, leaves, only))
    found = []
    for leaf, of_it in zip(leaves, zip(*rows, strict=True), strict=True):
        table = torch.stack([row.flatten() for row in of_it])  # (elements of t, elements of the leaf)
        if ((table != 0).sum(0) > 1).any() or not torch.isfinite(table).all():
            return None
        at = table.abs().argmax(0)
        factors = table.gather(0, at[None])[0]
        found.append(Slope(leaf, tuple(at.tolist()), tuple(factors.tolist())))
    return found


def _asked_by_digits(t: torch.Tensor, leaves: list[torch.Tensor]) -> list[Slope] | None:
    """A gradient that is the number of its place says of each element of a leaf where its own comes from."""
    if t.dtype not in (torch.float32, torch.float64):  # the others round even a digit
        return None
    factors = [one.flatten() for one in _through(t, leaves, torch.ones_like(t))]
    places = [torch.zeros(leaf.numel(), dtype=torch.int64, device=leaf.device) for leaf in leaves]
    number, unit = torch.arange(t.numel(), dtype=torch.int64, device=t.device).view(t.size()), 1
    while unit < t.numel():
        digits = (number // unit % DIGIT).to(t.dtype)
        for place, factor, said in zip(places, factors, _through(t, leaves, digits), strict=True):
            place += torch.where(factor == 0, 0, said.flatten() / factor).round().to(torch.int64) * unit
        unit *= DIGIT
    if not all(bool(((place >= 0) & (place < t.numel())).all()) for place in places):
        return None
    return [Slope(*one) for one in zip(leaves, places, factors, strict=True)]


def _is_so(t: torch.Tensor, slopes: list[Slope]) -> bool:
    grad = (torch.rand(t.size(), dtype=t.dtype, device="cpu", generator=_random) - 0.5).to(t.device)
    real = _through(t, [slope.leaf for slope in slopes], grad)
    return all(map(torch.equal, real, [slope.of(grad) for slope in slopes]))


def _through(t: torch.Tensor, leaves: list[torch.Tensor], grad: torch.Tensor) -> list[torch.Tensor]:
    found = torch.autograd.grad(t, leaves, grad, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if one is None else one for leaf, one in zip(leaves, found, strict=True)]


_random = torch.Generator().manual_seed(0)  # nobody else's
