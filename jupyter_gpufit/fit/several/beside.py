"""What a call is given beside rows, whole or as a number of samples: it is cut to those of this rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional
from torch.utils._pytree import tree_unflatten

from .drawn import Unlike
from .functions import flattened
from .group import Group
from .losses import bound
from .parts import BatchShare, Rows, mark, rows_of, whole_of
from .passages import cut
from .samples import Samples, with_samples
from .script import Cuts

EMBEDDINGS = (functional.embedding, functional.embedding_bag)
_OVER = {"topk": 2, "flip": 1, "cumsum": 1, "cumprod": 1, "cummax": 1, "cummin": 1, "logcumsumexp": 1}  # where dims are
_DIMS = 3  # of a recurrent module's state: layers, samples, numbers


def with_cuts(group: Group, share: BatchShare, cuts: Cuts, args: Any, kwargs: Any) -> Any:
    """Rows of the same samples: of a state from an earlier call, or of one made by a fixed size."""
    if not cuts:
        return args, kwargs
    leaves, spec = flattened((args, kwargs))
    for at, dim in cuts:
        one = leaves[at]
        if not isinstance(one, torch.Tensor):
            leaves[at] = share.mine
        elif one.dim() <= dim or one.shape[dim] != share.whole or rows_of(one) is not None:
            raise Unlike("what it is given beside samples does not follow the batch")
        else:
            leaves[at] = cut(group, one, dim, share.sizes)
    return tree_unflatten(leaves, spec)


def cuts_of(share: BatchShare, args: Any, kwargs: Any) -> Iterator[Cuts]:
    """What may be cut so that a call makes rows, the likeliest first."""
    leaves, whole = flattened((args, kwargs))[0], share.whole
    tensors = tuple(
        (at, one.shape.index(whole))
        for at, one in enumerate(leaves)
        if isinstance(one, torch.Tensor) and rows_of(one) is None and whole in one.shape
    )
    numbers = tuple((at, 0) for at, one in enumerate(leaves) if type(one) is int and one == whole)
    yield from filter(None, dict.fromkeys((tensors, numbers, (*tensors, *numbers))))


def with_state(group: Group, share: BatchShare, args: Any, kwargs: Any) -> Any:
    """What a recurrent module is given, its state in rows: it asks itself whether that has the batch's size."""
    leaves, spec = flattened((args, kwargs))
    tensors = [(at, one) for at, one in enumerate(leaves) if isinstance(one, torch.Tensor)]
    if not tensors or rows_of(tensors[0][1]) is None:
        return args, kwargs
    for at, one in tensors[1:]:
        if rows_of(one) is None and one.dim() == _DIMS and one.shape[1] == share.whole:
            leaves[at] = cut(group, one, 1, share.sizes)
            mark(leaves[at], Rows(1, share.sizes))
    return tree_unflatten(leaves, spec)


def renormed(group: Group, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """An embedding with a bound on its vectors' lengths shortens those that are looked up: by the samples of all."""
    given = bound(func, args, kwargs)
    if given.get("max_norm") is None:
        return args, kwargs
    looked_up = whole_of(group, given["input"]).contiguous()
    with torch.no_grad():
        torch.embedding_renorm_(given["weight"].detach(), looked_up, given["max_norm"], given["norm_type"])
    return (), {**given, "max_norm": None}


def goes_over(name: str, func: Callable[..., Any], args: Any, kwargs: Any) -> bool:
    """Whether what a function makes of one sample follows from the others, whatever its shape."""
    if name not in _OVER or not args or (rows := rows_of(args[0])) is None:
        return False
    numbers = [one for one in (*args[_OVER[name] :], *kwargs.get("dims", ()), kwargs.get("dim")) if one is not None]
    dims = [one for given in numbers for one in (given if isinstance(given, (list, tuple)) else [given])]
    return any(type(dim) is int and dim % args[0].dim() == rows.dim for dim in dims or [-1])


def sized(found: Any, t: Any = None, *dim: Any, **named: Any) -> Any:
    """What was found of a tensor, its size or whatever else: of rows, a size is also one of the whole batch."""
    rows = rows_of(t) if isinstance(t, torch.Tensor) else None
    if rows is None or not rows.sizes:
        return found
    whole = sum(rows.sizes) * rows.outer
    if isinstance(found, torch.Size):
        return with_samples(found, rows.dim, whole)
    if not isinstance(found, int) or isinstance(found, bool):
        return found
    if dim or named:  # size(0)
        (at,) = (*dim, *named.values())
        return Samples(found, whole) if at in (rows.dim, rows.dim - t.dim()) else found
    return Samples(found, found // t.shape[rows.dim] * whole) if found and found == t.numel() else found
