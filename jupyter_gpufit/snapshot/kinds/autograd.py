"""What of autograd's graphs a snapshot can hold: a tensor that is a look at a parameter, and one whose graph is spent.

A live graph consists of C++ objects that nobody can make again, so a tensor that carries one is only put off. Two kinds
can be held: a look at a leaf, which is looked at again; and what `chunk`, `split` or `unbind` make of a leaf, whose
gradients meet in one node, and which the same operation makes again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

import torch
from torch.autograd import Function

from ...graph.kinds.tensors import has_live_graph

# Operations that only look at their one input elsewhere, and whose gradient is copied and not computed.
_LOOKS = {
    "AliasBackward0",
    "AsStridedBackward0",
    "DiagonalBackward0",
    "PermuteBackward0",
    "SelectBackward0",
    "SliceBackward0",
    "SqueezeBackward0",
    "SqueezeBackward1",
    "SqueezeBackward2",
    "TBackward0",
    "TransposeBackward0",
    "UnsqueezeBackward0",
    "ViewBackward0",
}


State: TypeAlias = Literal["none", "live", "spent"]


def graph_of(t: torch.Tensor) -> tuple[State, str]:
    """Whether backward can still go through what a tensor was computed with; and the name of the last operation."""
    try:
        node: Any = t.grad_fn
    except RuntimeError:  # one of a parameter's rows, `for row in weight`, after the parameter has changed
        return "spent", "Invalid"
    if node is None:
        return "none", ""
    name = type(node).__name__
    if name == "CppFunction":
        name = node.name().rsplit("::", 1)[-1]
    return "live" if has_live_graph(t) else "spent", name


def looked_at(t: torch.Tensor) -> torch.Tensor | None:
    """The leaf whose elements `t` shows, as in `w = model.weight[0]`, if that is all that its graph says."""
    if not t._is_view() or t.retains_grad or t._backward_hooks:
        return None
    leaf = cast(torch.Tensor, t._base)
    node: Any = t.grad_fn
    while node is not None and node.name() in _LOOKS:
        node = node.next_functions[0][0]
    end: object = getattr(node, "variable", None)
    if end is not leaf or t.dtype != leaf.dtype or not (_apart(t) and _apart(leaf)):
        return None
    return leaf


def _apart(t: torch.Tensor) -> bool:
    """Whether no two elements are the same one: of such the gradients would be summed, in another order."""
    reach = 0
    for stride, size in sorted((stride, size) for stride, size in zip(t.stride(), t.size(), strict=True) if size > 1):
        if stride <= reach:
            return False
        reach += stride * (size - 1)
    return True


def look_at(leaf: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> torch.Tensor:
    """The same elements by one operation, as autograd itself does it once the leaf has changed."""
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return leaf.requires_grad_(True).as_strided(size, stride, offset)


# What splits a tensor, and what its node keeps of the arguments.
_SPLITS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "SplitBackward0": (torch.Tensor.split, ("_saved_split_size", "_saved_dim")),
    "SplitWithSizesBackward0": (torch.Tensor.split_with_sizes, ("_saved_split_sizes", "_saved_dim")),
    "UnbindBackward0": (torch.Tensor.unbind, ("_saved_dim",)),
}


@dataclass(frozen=True)
class LeafParts:
    """All outputs of one operation that splits a leaf."""

    leaf: torch.Tensor
    operation: str
    args: tuple[Any, ...]

    def __reduce__(self) -> Any:
        return split_again, (self.leaf, self.operation, self.args)


def parts_with(t: torch.Tensor) -> LeafParts | None:
    """Of which operation `t` is one output, as in `a, b = w.chunk(2)`, if that is all that its graph says."""
    if not t._is_view() or t.retains_grad or t._backward_hooks:
        return None
    leaf, node = cast(torch.Tensor, t._base), cast(Any, t.grad_fn)
    if node.name() not in _SPLITS or getattr(node.next_functions[0][0], "variable", None) is not leaf:
        return None
    kept = [getattr(node, name) for name in _SPLITS[node.name()][1]]
    found = LeafParts(leaf, node.name(), tuple(map(_signed, kept)))
    mine = _split(found)[t.output_nr]
    look = (t.dtype, t.size(), t.stride(), t.storage_offset())
    return found if look == (mine.dtype, mine.size(), mine.stride(), mine.storage_offset()) else None


def _signed(kept: Any) -> Any:
    """A node shows dim=-1 as a number of 64 bits without a sign."""
    return kept - (1 << 64) if type(kept) is int and kept >= 1 << 63 else kept


def _split(parts: LeafParts) -> tuple[torch.Tensor, ...]:
    operation, _ = _SPLITS[parts.operation]
    found: tuple[torch.Tensor, ...] = operation(parts.leaf, *parts.args)
    return found


def split_again(leaf: torch.Tensor, operation: str, args: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    with torch._C.DisableTorchFunctionSubclass(), torch.enable_grad():
        return _split(LeafParts(leaf.requires_grad_(True), operation, args))


class Spent(Function):
    """Stands for a graph that backward has freed."""

    @staticmethod
    def forward(ctx: Any, t: torch.Tensor, anchor: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(t)
        ctx.save_for_backward(anchor)
        return t

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, torch.zeros_like(*ctx.saved_tensors)  # the second time, autograd's own error


@functools.cache
def _spent_as(name: str) -> Any:
    """The same under the name that a printed tensor shows: grad_fn=<MeanBackward0>."""
    made: Any = type("Spent", (Spent,), {})
    made._backward_cls.__name__ = name
    return made


def give_spent_graph(t: torch.Tensor, name: str) -> None:
    """Make it what the loss of the last step is: computed, so that `total += loss` may change it in place.

    As a leaf it could not be; and a backward through it must fail as it would have.
    """
    anchor = torch.zeros((), dtype=torch.float32, device="cpu", requires_grad=True)
    with torch.enable_grad():
        _spent_as(name).apply(t, anchor)
        torch.autograd.grad(t, anchor, torch.zeros((), dtype=t.dtype, device=t.device).expand(t.shape))
