"""Operators that fake tensors have no answer for: what depends on values, which are not there, and a kernel or two.

A guess or an upper bound is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from ...cuda.stand_in.device import on_stand_in
from ...units import MiB
from . import branches, recurrent
from .example import by_example

if TYPE_CHECKING:
    from .books import Books

aten = torch.ops.aten
GUESSED_ON_HOST = "values guessed for a copy to the host"
_TO_HOST = 256 * MiB  # up to here a copy to the CPU is a real tensor, so that plots and metrics work


def _item(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    if (known := books.known.of(args[0])) is not None:
        return known.item()
    dtype = args[0].dtype
    if dtype == torch.bool and branches.only_draws():
        return False
    books.notes["value guessed for .item()"] += 1
    wanted = branches.wanted(books.rounds, books.step)
    if dtype == torch.bool:
        # What a `while` waits for may come of the other answer: `if accepted.any(): done = done | accepted`.
        return wanted if wanted is not None else branches.tried(books.rounds, books.step) is not None
    if dtype.is_floating_point and (tried := branches.tried(books.rounds, books.step)) is not None:
        return tried
    guess = 0 if wanted is False else 1
    return float(guess) if dtype.is_floating_point else guess + max(0, books.known.further_of(args[0]))


def _equal(books: Books, func: Any, args: Any, kwargs: Any) -> bool:
    """torch.equal and torch.allclose: shapes are known, values are not."""
    if func is aten.equal.default and args[0].shape != args[1].shape:
        return False
    if args[0] is args[1]:
        return True
    books.notes["value guessed for a comparison"] += 1
    return bool(branches.wanted(books.rounds, books.step))


def _copy(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    t, device = args[0], kwargs.get("device")
    to_host = on_stand_in(t) and device is not None and device.type == "cpu"
    if not to_host or t.numel() * t.element_size() > _TO_HOST:
        return books.compute(func, args, kwargs)
    dtype = kwargs.get("dtype") or t.dtype
    if (known := books.known.of(t)) is not None:
        return known.to(dtype, copy=True)
    books.notes[GUESSED_ON_HOST] += 1
    return (torch.zeros if dtype == torch.bool else torch.ones)(t.shape, dtype=dtype, device="cpu")


def _nonzero(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    if (known := books.known.of(args[0])) is not None:
        return books.new(args[0], (int(known.count_nonzero()), known.dim()), torch.int64, "nonzero")
    books.notes["upper bound: nonzero"] += 1
    return books.new(args[0], (args[0].numel(), args[0].dim()), torch.int64, "nonzero")


def _masked_select(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    if (known := books.known.of(args[1])) is not None:
        taken = int(known.expand(shape).count_nonzero())
    else:
        books.notes["upper bound: mask"] += 1
        taken = shape.numel()
    return books.new(args[0], (taken,), args[0].dtype, "masked_select")


def _pack(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """Lengths are on the CPU; where they were copied from values that nobody knows, each is as long as the longest.

    Where they are not on the CPU torch refuses for itself, on a GPU; a slot, whose memory is the host's, takes them.
    """
    t, lengths, batch_first = args
    if on_stand_in(lengths):
        lengths = books.known.of(lengths)
    elif books.notes[GUESSED_ON_HOST] and bool((lengths == 1).all()):
        lengths = None
    if lengths is None:
        books.notes["upper bound: lengths"] += 1
        rows, longest = t.shape[:2] if batch_first else (t.shape[1], t.shape[0])
        lengths = torch.full((rows,), longest, device="cpu")
    data = books.new(t, (int(lengths.sum()), *t.shape[2:]), t.dtype, "_pack_padded_sequence")
    longest = int(lengths.max())
    return data, torch.tensor([int((lengths > at).sum()) for at in range(longest)], dtype=torch.int64, device="cpu")


def _unique(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    t = args[0]
    inverse, counts = (bool(args[at]) if len(args) > at else False for at in (2, 3))
    if (known := books.known.of(t)) is not None:
        values = torch.unique(known)
        different = books.new(t, tuple(values.shape), t.dtype, "unique")
        books.known.keep(different, values)
    else:
        books.notes["upper bound: unique"] += 1
        different = books.new(t, (books.known.kinds_of(t),), t.dtype, "unique")
    return (
        different,
        books.new(t, tuple(t.shape) if inverse else (0,), torch.int64, "unique"),
        books.new(t, (different.numel() if counts else 0,), torch.int64, "unique"),
    )


def _unique_rows(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """`torch.unique(x, dim=0)`: as many as there are, where nobody knows them."""
    t, dim = args[0], args[1] % args[0].dim()
    if (known := books.known.of(t)) is not None:
        count = torch.unique(known, dim=dim).shape[dim]
    else:
        books.notes["upper bound: unique"] += 1
        count = t.shape[dim]
    different = books.new(t, (*t.shape[:dim], count, *t.shape[dim + 1 :]), t.dtype, "unique_dim")
    inverse = books.new(t, (t.shape[dim],), torch.int64, "unique_dim")
    return different, inverse, books.new(t, (count,), torch.int64, "unique_dim")


def _unique_runs(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """`torch.unique_consecutive(x)`: in the order in which they stand, each once for every run of it."""
    t, inverse, counts, dim = (*args, None, None, None)[:4]
    if (known := books.known.of(t)) is not None:
        values = torch.unique_consecutive(known, dim=dim)
        shape = tuple(values.shape)
    else:
        books.notes["upper bound: unique"] += 1
        values, shape = None, tuple(t.shape) if dim is not None else (t.numel(),)
    different = books.new(t, shape, t.dtype, "unique_consecutive")
    if values is not None:
        books.known.keep(different, values)
    runs = shape[dim or 0]
    of_each = tuple(t.shape) if dim is None else (t.shape[dim],)
    return (
        different,
        books.new(t, of_each if inverse else (0,), torch.int64, "unique_consecutive"),
        books.new(t, (runs,) if counts else (0,), torch.int64, "unique_consecutive"),
    )


def _gru_cell(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """CUDA's fused kernel, which has no shapes of its own; its workspace holds five gates."""
    hidden = args[2]
    rows, columns = hidden.shape
    return (
        books.new(hidden, (rows, columns), hidden.dtype, "_thnn_fused_gru_cell"),
        books.new(hidden, (rows, 5 * columns), hidden.dtype, "_thnn_fused_gru_cell"),
    )


def _gru_cell_backward(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    grad, _, has_bias = args
    rows, columns = grad.shape
    shapes: list[tuple[int, ...]] = [(rows, 3 * columns), (rows, 3 * columns), (rows, columns)]
    shapes += [(3 * columns,), (3 * columns,)] if has_bias else []
    made = [books.new(grad, shape, grad.dtype, "_thnn_fused_gru_cell_backward") for shape in shapes]
    return (*made, None, None)[:5]


def _example(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """Said to depend on values, but for all that matters only shapes and given lengths decide."""
    made = by_example(books, func, args, kwargs)
    for t in filter(on_stand_in, tree_leaves(made)):
        books.enter(t, func._opname)
    return made


def _zeros(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """Zeros that torch never writes down, of a derivative forwards: as fake tensors, views of one lose its device."""
    with books.fake:
        out = torch.zeros((), dtype=kwargs.get("dtype"), device=kwargs["device"]).expand(args[0])
    books.enter(out, func._opname)
    return out


def _bincount(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """As long as the largest value; where nobody knows it, as long as is asked for, or as there are values."""
    least = int(kwargs.get("minlength", args[2] if len(args) > 2 else 0))
    weights = args[1] if len(args) > 1 else kwargs.get("weights")
    dtype = torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    if (known := books.known.of(args[0])) is None:
        books.notes["value guessed for bincount()"] += 1
        return books.new(args[0], (least or args[0].numel(),), dtype, "bincount")
    counts = torch.bincount(known, minlength=least)
    out = books.new(args[0], tuple(counts.shape), dtype, "bincount")
    if weights is None:
        books.known.keep(out, counts)
    return out


def _repeat_interleave(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """As long as the repeats together; each once, where nobody knows them."""
    size = kwargs.get("output_size")
    if size is None and (known := books.known.of(args[0])) is not None:
        size = int(known.sum())
    if size is None:
        books.notes["value guessed for repeat_interleave()"] += 1
        size = args[0].numel()
    return books.new(args[0], (size,), torch.int64, "repeat_interleave")


def _index(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """A boolean mask, as if it were all True."""
    t, indices, *rest = args
    if not any(i is not None and i.dtype == torch.bool for i in indices):
        return books.compute(func, args, kwargs)
    masks = [i for i in indices if i is not None and i.dtype == torch.bool]
    known = [books.known.of(mask) for mask in masks]
    if any(values is None for values in known):
        books.notes["upper bound: mask"] += 1
    taken = [m.numel() if of is None else int(of.count_nonzero()) for m, of in zip(masks, known, strict=True)]
    counted: list[Any] = []
    with books.fake:
        for i in indices:
            if i is not None and i.dtype == torch.bool:
                counted += [torch.empty((taken.pop(0),), dtype=torch.int64, device=t.device)] * i.dim()
            else:
                counted.append(i)
    return books.compute(func, (t, counted, *rest), kwargs)


def _where(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """By a mask of bytes, as old code has it: torch computes so, and its shapes alone refuse."""
    mask, *rest = args
    if mask.dtype == torch.uint8:
        with books.fake:
            mask = mask.to(torch.bool)
    return books.compute(func, (mask, *rest), kwargs)


def _grouped(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """A mixture's experts at once: torch knows its shape only for bfloat16, and computes it for the others, too."""
    a, b = args[:2]
    offs = args[2] if len(args) > 2 else kwargs.get("offs")
    if a.dtype == b.dtype == torch.bfloat16:
        return books.compute(func, args, kwargs)
    if a.dim() == b.dim():
        groups = a.shape[0] if a.dim() == 3 else offs.shape[0]
        return books.new(a, (groups, a.shape[-2], b.shape[-1]), a.dtype, "grouped_mm")
    return books.new(a, (a.shape[-2], b.shape[-1]), a.dtype, "grouped_mm")


ANSWERS: dict[Any, Callable[[Books, Any, Any, Any], Any]] = {
    aten._local_scalar_dense.default: _item,
    aten.equal.default: _equal,
    aten._efficientzerotensor.default: _zeros,
    aten.bincount.default: _bincount,
    aten.where.self: _where,
    aten._ctc_loss.default: _example,
    aten.linalg_lstsq.default: _example,
    aten.allclose.default: _equal,
    aten._to_copy.default: _copy,
    aten._cudnn_rnn.default: recurrent.forward,
    aten._cudnn_rnn_backward.default: recurrent.backward,
    aten._thnn_fused_gru_cell.default: _gru_cell,
    aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    aten.nonzero.default: _nonzero,
    aten._pack_padded_sequence.default: _pack,
    aten._unique2.default: _unique,
    aten.unique_dim.default: _unique_rows,
    aten.unique_consecutive.default: _unique_runs,
    aten.masked_select.default: _masked_select,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.index.Tensor: _index,
}
if hasattr(aten, "_grouped_mm"):  # older versions of torch have none
    ANSWERS[aten._grouped_mm.default] = _grouped
