"""Where values pass between what all ranks have alike and what each has a part of; each way with its gradient.

What every rank has alike is *whole*, and so is its gradient. Of a *split* tensor each rank has some rows, and their
gradient. Where something whole meets rows, each rank finds a part of its gradient, and the whole one is the sum. The
four passages are two pairs, in which the gradient of one is the other; so gradients of gradients are right, too:

    meet   whole -> whole beside rows    backward: the ranks' gradients are summed (add)
    add    parts of a sum -> the sum     backward: as it is (meet)
    cut    whole -> rows                 backward: the ranks' gradients are put together (join)
    join   rows -> whole                 backward: one's own rows of it (cut)

After Megatron-LM's `f` and `g` (core/tensor_parallel/mappings.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd import Function

from .group import Group, ShapesOnly

BUCKET = 25 << 20  # bytes of gradients that are summed at once, as torch's DDP does
BUCKET_OF_PARTS = 1 << 20  # where each is cut at once: all of a bucket are whole until its last one is there

summed: list[Callable[[Sequence[torch.Tensor]], None]] = []  # told of tensors whose gradients have just been summed


def meet(group: Group, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The same values, for computing with rows; their gradients are summed together, when all of them are there."""
    return list(_Meet.apply(group, *tensors))  # type: ignore[no-untyped-call]


def add(group: Group, tensor: torch.Tensor) -> torch.Tensor:
    """The sum over the ranks."""
    return _Add.apply(group, (_looks(tensor),), tensor)[0]  # type: ignore[no-untyped-call, no-any-return]


def cut(group: Group, tensor: torch.Tensor, dim: int, sizes: Sequence[int]) -> torch.Tensor:
    """This rank's rows."""
    if not grads_needed(tensor):
        return _rows(group, tensor, dim, sizes)
    return _Cut.apply(group, tensor, dim, tuple(sizes))  # type: ignore[no-untyped-call, no-any-return]


def join(group: Group, tensor: torch.Tensor, dim: int, sizes: Sequence[int]) -> torch.Tensor:
    """The rows of all ranks, of which each has so many."""
    if not grads_needed(tensor):
        return _joined(group, tensor, dim, sizes)
    return _Join.apply(group, tensor, dim, tuple(sizes))  # type: ignore[no-untyped-call, no-any-return]


def grads_needed(t: torch.Tensor) -> bool:
    return t.requires_grad and torch.is_grad_enabled()


def _looks(t: torch.Tensor) -> tuple[torch.Size, torch.dtype, torch.device]:
    return t.shape, t.dtype, t.device


class _Meet(Function):
    @staticmethod
    def forward(ctx: Any, group: Group, *tensors: torch.Tensor) -> Any:
        ctx.group, ctx.looks = group, tuple(map(_looks, tensors))
        ctx.leaves = [t for t in tensors if t.is_leaf]
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        found = _Add.apply(ctx.group, ctx.looks, *grads)  # type: ignore[no-untyped-call]
        for told in summed:
            told(ctx.leaves)
        return None, *found


class _Add(Function):
    """Of tensors of one dtype, of which some ranks may lack some: what all lack stays None."""

    @staticmethod
    def forward(ctx: Any, group: Group, looks: Any, *parts: torch.Tensor | None) -> Any:
        ctx.group, ctx.lacks = group, [part is None for part in parts]
        ctx.set_materialize_grads(False)
        if len(parts) == 1 and parts[0] is not None and parts[0].is_sparse:
            return (_sparse_sum(group, parts[0]),)
        if len(parts) == 1:
            shape, dtype, device = looks[0]
            one = torch.zeros(shape, dtype=dtype, device=device) if parts[0] is None else parts[0]
            one = one.clone(memory_format=torch.contiguous_format)  # no view: it may be changed in place
            group.all_reduce(one)
            return (one,)
        shapes, (_, dtype, device) = [shape for shape, _, _ in looks], looks[0]
        there = torch.tensor([0 if lacks else 1 for lacks in ctx.lacks], dtype=dtype, device=device)
        flat = torch.cat([*(_flat(part, look) for part, look in zip(parts, looks, strict=True)), there])
        group.all_reduce(flat)
        found = [True] * len(parts) if isinstance(group, ShapesOnly) else (flat[-len(parts) :] > 0).tolist()
        sizes = [shape.numel() for shape in shapes]
        sums = flat[: -len(parts)].split(sizes)
        return tuple(
            one.view(shape).clone() if is_there else None
            for one, shape, is_there in zip(sums, shapes, found, strict=True)
        )

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> Any:
        there = [grad for grad in grads if grad is not None]
        met = iter(meet(ctx.group, there) if there else ())
        back = [None if grad is None else next(met) for grad in grads]
        return None, None, *(None if lacks else one for lacks, one in zip(ctx.lacks, back, strict=True))


def _flat(part: torch.Tensor | None, looks: Any) -> torch.Tensor:
    shape, dtype, device = looks
    if part is None:
        return torch.zeros(shape.numel(), dtype=dtype, device=device)
    return part.reshape(-1)


def _sparse_sum(group: Group, part: torch.Tensor) -> torch.Tensor:
    """Entries stay entries, so that an optimizer for sparse gradients leaves all others alone."""
    part = part.coalesce()
    sizes = counts(group, part._nnz(), part.device)
    indices = _joined(group, part.indices(), 1, sizes)
    values = _joined(group, part.values(), 0, sizes)
    return torch.sparse_coo_tensor(indices, values, part.shape, check_invariants=False).coalesce()


class _Cut(Function):
    @staticmethod
    def forward(ctx: Any, group: Group, tensor: torch.Tensor, dim: int, sizes: tuple[int, ...]) -> Any:
        ctx.group, ctx.dim, ctx.sizes = group, dim, sizes
        return _rows(group, tensor, dim, sizes).clone()  # else it could not be changed in place

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, join(ctx.group, grad, ctx.dim, ctx.sizes), None, None


class _Join(Function):
    @staticmethod
    def forward(ctx: Any, group: Group, tensor: torch.Tensor, dim: int, sizes: tuple[int, ...]) -> Any:
        ctx.group, ctx.dim, ctx.sizes = group, dim, sizes
        return _joined(group, tensor, dim, sizes)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return None, cut(ctx.group, grad, ctx.dim, ctx.sizes), None, None


def _rows(group: Group, t: torch.Tensor, dim: int, sizes: Sequence[int]) -> torch.Tensor:
    return t.narrow(dim, sum(sizes[: group.rank]), sizes[group.rank])


def _joined(group: Group, t: torch.Tensor, dim: int, sizes: Sequence[int]) -> torch.Tensor:
    """Ranks exchange tensors of one shape: whoever has fewer rows sends more."""
    most, own = max(sizes), sizes[group.rank]
    assert t.shape[dim] == own
    sent = t.detach().contiguous()
    if own < most:
        more = list(t.shape)
        more[dim] = most - own
        sent = torch.cat([sent, sent.new_zeros(more)], dim)
    parts = group.all_gather(sent)
    return torch.cat([part.narrow(dim, 0, size) for part, size in zip(parts, sizes, strict=True)], dim)


def counts(group: Group, own: int, device: torch.device) -> tuple[int, ...]:
    """A number of each rank."""
    if isinstance(group, ShapesOnly):
        return (own,) * group.size
    return tuple(int(one.item()) for one in group.all_gather(torch.tensor([own], device=device)))


def buckets(tensors: Sequence[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Neighbours of one dtype and device, so many bytes together; an embedding's may come sparse, and stand alone."""
    found: list[list[torch.Tensor]] = []
    most = BUCKET_OF_PARTS if summed else BUCKET
    open_ones: dict[Any, list[torch.Tensor]] = {}
    for t in tensors:
        key = (t.dtype, t.device)
        bucket = open_ones.get(key)
        if bucket is None or sum(one.nbytes for one in bucket) + t.nbytes > most:
            bucket = open_ones[key] = []
            found.append(bucket)
        bucket.append(t)
    return found
