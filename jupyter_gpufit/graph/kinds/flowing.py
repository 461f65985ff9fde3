"""A tensor from which gradients flow on to where nobody looks: `x = torch.rand(9, requires_grad=True).to(device)`.

The leaf behind it is held by autograd alone, and no node on the way has saved a value. So nobody can tell its graph
from another one that ends in a leaf of its own, and that one is made where it arrives. Physics-informed networks and
attacks on images begin like this.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from ...errors import GraphStayed

_MOST_NODES = 500
_MOST_OF_GRAPH = 5000


def nearest_nodes(t: torch.Tensor, most: int = _MOST_NODES) -> Iterator[Any]:
    """The nodes of its graph, those that come first in a backward before the others, and so many at the most.

    A node that was looked at from Python is freed by a call inside of the call that frees the one before it: ten
    thousands in a row, as in a network that is unrolled over a long sequence, would end the process.
    """
    todo, seen = deque([t.grad_fn]), set[Any]()
    while todo and len(seen) < most:
        node: Any = todo.popleft()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        todo += [following for following, _ in node.next_functions]


def flows_nowhere(t: torch.Tensor) -> bool:
    """Whether a backward through the tensor's live graph leaves nothing that anybody could see."""
    if t.retains_grad or t._backward_hooks:
        return False
    count = 0
    for node in nearest_nodes(t):
        count += 1
        if isinstance(node, torch.autograd.function.BackwardCFunction) or saves(node):
            return False
        if hasattr(node, "variable") and _references(node) > _of_nobody():
            return False
    return count < _MOST_NODES


def saves(node: Any) -> bool:
    """Whether it keeps values for its backward, which uses them up."""
    return any(_is_saved(getattr(node, name)) for name in dir(node) if name.startswith("_saved_"))


def _is_saved(value: Any) -> bool:
    return isinstance(value, torch.Tensor) or (isinstance(value, (tuple, list)) and any(map(_is_saved, value)))


def _references(node: Any) -> int:
    leaf = node.variable
    return sys.getrefcount(leaf) + len(leaf._backward_hooks or ())


@functools.cache
def _of_nobody() -> int:
    """How many a leaf has that only autograd holds."""
    with torch.enable_grad():
        t: Any = torch.ones(1, device="cpu", requires_grad=True).clone()
    return _references(t.grad_fn.next_functions[0][0])


class _Stayed(torch.autograd.Function):
    """Stands for a graph that stayed where it was computed: until a gradient comes to it, nobody need know."""

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor) -> torch.Tensor:
        return hidden.clone(memory_format=torch.preserve_format)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if not getattr(ctx, "ends", False):
            raise GraphStayed
        return grads[0]


def graph_stayed(t: torch.Tensor) -> bool:
    return issubclass(getattr(type(t.grad_fn), "_forward_cls", object), _Stayed)


def let_end(t: torch.Tensor) -> None:
    """Let the gradients end at a tensor whose graph stayed: here is nobody to whom they could flow on."""
    node: Any = t.grad_fn
    node.ends = True


def stays_out(t: torch.Tensor) -> bool:
    """Whether its graph stayed and a gradient may not come to it."""
    return graph_stayed(t) and not getattr(t.grad_fn, "ends", False)


def leaves_of(t: torch.Tensor) -> list[torch.Tensor] | None:
    """To which its gradients flow; None: nobody can tell, or somebody's code would run on the way."""
    found, count = list[torch.Tensor](), 0
    for node in nearest_nodes(t, _MOST_OF_GRAPH):
        count += 1
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return None
        if (leaf := getattr(node, "variable", None)) is not None:
            if leaf._backward_hooks or leaf._post_accumulate_grad_hooks:
                return None
            found.append(leaf)
    return found if count < _MOST_OF_GRAPH else None


@functools.cache
def _stayed(name: str) -> Any:
    """The same under the name that a printed tensor says it is of: `grad_fn=<MeanBackward0>`."""
    made: Any = type(name, (_Stayed,), {}) if name else _Stayed
    if name:
        made._backward_cls.__name__ = name
    return made


def flowing(like: torch.Tensor, *, stays: bool = False, name: str = "") -> torch.Tensor:
    """A tensor that looks so, and from which gradients flow on into a leaf of its own; its values are to come.

    `stays`: no gradient may, for its graph, whose first node has this `name`, stayed where it was computed.
    """
    hidden = like.new_empty(()).expand(like.size()).detach().requires_grad_()
    with torch.enable_grad():
        if stays:
            found: torch.Tensor = _stayed(name).apply(hidden)
            return found
        return hidden.clone(memory_format=torch.preserve_format)
