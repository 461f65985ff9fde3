"""Sparse matrices on the stand-in, which torch's fake tensors cannot be: indices and values are fake, and on record.

What is computed of one is told in four ways: its parts are asked for; it keeps its pattern, so that its values are
computed; it is multiplied by a dense matrix, or becomes one. All else is computed of it as of a dense matrix, which is
an upper bound, and said. How many entries come of a sum, a product or a dense matrix depends on values: an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_map

from ...cuda.stand_in.device import on_stand_in
from ...cuda.stand_in.sparse_fake import COO, SparseFake, true_device
from ...devices import sides

if TYPE_CHECKING:
    from .books import Books

aten = torch.ops.aten
Answer = Callable[["Books", Any, Any, Any], Any]
AS_DENSE = "upper bound: a sparse matrix taken as dense"
MORE = "upper bound: entries of a sparse matrix"
_BY_ROWS = (torch.sparse_csr, torch.sparse_bsr)


_copy = aten._to_copy.default  # within an operation `to` is not taken apart


def answer(books: Books, func: Any, args: Any, kwargs: Any, leaves: Sequence[object]) -> Any:
    """NotImplemented where no sparse matrix is taken or made. `leaves`: the arguments, also those in lists."""
    if any(isinstance(leaf, SparseFake) for leaf in leaves):
        with books:
            return _ANSWERS.get(func._opname, _as_dense)(books, func, args, kwargs)
    if func in _MAKERS and any(map(on_stand_in, leaves)):
        with books:
            return _MAKERS[func](books, func, args, kwargs)
    if func._opname in ("to", "_to_copy") and sides.parts(args[0]):
        with books:
            return _arrived(args[0], leaves)
    return NotImplemented


def _arrived(tensor: torch.Tensor, leaves: Sequence[object]) -> SparseFake:
    """A real one that goes to the device."""
    device = next(one for one in leaves if isinstance(one, torch.device))
    dtype = next((one for one in leaves if isinstance(one, torch.dtype)), tensor.dtype)
    *places, values = (_copy(part, device=device) for part in sides.parts(tensor))
    coalesced = tensor.layout is not COO or tensor.is_coalesced()
    return SparseFake(tensor.layout, (*places, _copy(values, dtype=dtype)), tensor.shape, coalesced)


# Making


def _of_coordinates(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    _, _, size, indices, values = args[:5]
    return SparseFake(COO, (_there(indices, values), values), size, bool(kwargs.get("is_coalesced")))


def _of_rows(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    first, second, values, size = args[:4]
    layout = kwargs.get("layout") or torch.sparse_csr
    return SparseFake(layout, (_there(first, values), _there(second, values), values), size)


def _there(indices: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return indices if on_stand_in(indices) else _copy(indices, device=true_device(values))


def _of_dense(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """Nobody knows how many are nought."""
    books.notes[MORE] += 1
    dense, count = args[0], args[0].numel()
    values = dense.reshape(-1).clone()
    coordinates = torch.empty(dense.dim(), count, dtype=torch.int64, device=values.device)
    found = SparseFake(COO, (coordinates, values), dense.shape)
    layout = _TO_ROWS.get(func._opname) or kwargs.get("layout")
    return found if layout in (None, COO) else _compressed(found, layout)


# Its parts


def _part(number: int) -> Answer:
    return lambda books, func, args, kwargs: args[0].parts[number].detach()


def _told(what: Callable[[SparseFake], Any]) -> Answer:
    return lambda books, func, args, kwargs: what(args[0])


# Of the same pattern


def _of_its_values(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    first, *rest = args
    if not isinstance(first, SparseFake) or any(_is_large(one) for one in rest):
        return _joined(books, func, args, kwargs)
    given = [one.values_ if isinstance(one, SparseFake) else one for one in rest]
    return first.of_values(func(first.values_, *given, **kwargs))


def _is_large(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and (isinstance(one, SparseFake) or one.dim() > 0)


def _in_place(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    first, *rest = args
    func(first.values_, *(one.values_ if isinstance(one, SparseFake) else one for one in rest), **kwargs)
    return first


def _copied(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    it = args[0]
    device = kwargs.get("device")
    if device is not None and device.type == "cpu":
        parts = [_copy(part, device=torch.device("cpu")) for part in it.parts]
        if it.kind is COO:
            parts[0].zero_()  # which entries there are depends on values: any that can be
            return torch.sparse_coo_tensor(parts[0], parts[1], it.shape)
        return torch.zeros(it.shape, dtype=parts[-1].dtype, device="cpu")
    dtype = kwargs.get("dtype") or it.dtype
    return SparseFake(it.kind, [*(p.clone() for p in it.parts[:-1]), _copy(it.values_, dtype=dtype)], it.shape)


def _coalesced(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    it = args[0]
    if not isinstance(it, SparseFake) or it.coalesced:
        return it
    books.notes[MORE] += 1
    return SparseFake(it.kind, [part.clone() for part in it.parts], it.shape, True)


def _masked(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """Of a dense matrix, what lies where a sparse one has entries."""
    dense, mask = args[:2]
    if isinstance(mask, SparseFake):
        return mask.of_values(torch.empty_like(mask.values_, dtype=dense.dtype))
    return torch.empty(mask.shape[1], dtype=dense.dtype, device=true_device(mask))


# Others of it


def _turned(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    it = args[0]
    order = args[1] if len(args) == 2 else None
    dims = [*range(it.dim())]
    if order is not None:
        dims = [one % it.dim() for one in order]
    elif it.dim() > 1:
        first, second = (args[1], args[2]) if len(args) > 2 else (0, 1)
        dims[first], dims[second] = dims[second], dims[first]
    size = [it.shape[dim] for dim in dims]
    if it.kind is COO:
        return SparseFake(COO, (it.parts[0].clone(), it.values_), size, False)
    return SparseFake(_TURNED[it.kind], it.parts, size)


def _compressed(it: SparseFake, layout: torch.layout) -> SparseFake:
    if it.kind is layout:
        return it
    rows = it.shape[-2] if layout in _BY_ROWS else it.shape[-1]
    places = [torch.empty(count, dtype=torch.int64, device=true_device(it.values_)) for count in (rows + 1, it.entries)]
    return SparseFake(layout, (*places, it.values_.clone()), it.shape)


def _to_sparse(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    it = args[0]
    layout = _TO_ROWS.get(func._opname) or kwargs.get("layout")
    if layout not in (None, COO):
        return _compressed(it, layout)
    if it.kind is COO:
        return it
    coordinates = torch.empty(it.dim(), it.entries, dtype=torch.int64, device=true_device(it.values_))
    return SparseFake(COO, (coordinates, it.values_.clone()), it.shape)


def _joined(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """The sum or the product of two: no more entries than both have."""
    both = [one for one in args[:2] if isinstance(one, SparseFake)]
    if func._opname in ("mul", "div") and both:
        return both[0].of_values(both[0].values_.clone())
    if len(both) < 2:
        return _as_dense(books, func, args, kwargs)
    books.notes[MORE] += 1
    it = both[0]
    parts = [torch.cat([one.parts[n] for one in both], dim=-1 if n == 0 else 0) for n in range(len(it.parts))]
    if it.kind is not COO:
        parts[0] = it.parts[0].clone()
    return SparseFake(it.kind, parts, it.shape, False)


def _summed(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    it, dims = args[0], [one % args[0].dim() for one in args[1]] if len(args) > 1 else [*range(args[0].dim())]
    left = [n for n in range(it.dim()) if n not in dims]
    if not left:
        return it.values_.sum()
    books.notes[MORE] += 1
    places = torch.empty(len(left), it.entries, dtype=torch.int64, device=true_device(it.values_))
    return SparseFake(COO, (places, it.values_.clone()), [it.shape[n] for n in left])


# Dense


def _product(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """A matrix, or what it is added to, of what two are multiplied to."""
    factors: list[Any] = [one for one in args if isinstance(one, torch.Tensor)][-2:]
    first, second = factors
    if isinstance(first, SparseFake) and isinstance(second, SparseFake):
        books.notes[MORE] += 1
        size = first.shape[0], second.shape[1]
        count, device = min(size[0] * size[1], first.entries * second.entries), true_device(first.values_)
        places = torch.empty(2, count, dtype=torch.int64, device=device)
        found = SparseFake(COO, (places, torch.empty(count, dtype=first.dtype, device=device)), size, False)
        return _compressed(found, first.kind)
    sparse, dense = (first, second) if isinstance(first, SparseFake) else (second, first)
    if first.shape[-1] != second.shape[0 if second.dim() == 1 else -2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({_by(first)} and {_by(second)})"
        )  # as torch does, which says no more
    shape = (*first.shape[:-1], *second.shape[second.dim() - 1 :]) if second.dim() > 1 else first.shape[:-1]
    books.count(2 * sparse.entries * (dense.shape[-1] if dense.dim() > 1 else 1))
    return torch.empty(shape, dtype=dense.dtype, device=true_device(dense))


def _by(one: torch.Tensor) -> str:
    return "x".join(map(str, one.shape))


def _dense(it: SparseFake) -> torch.Tensor:
    return torch.zeros(it.shape, dtype=it.dtype, device=true_device(it.values_))


def _to_dense(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    return _dense(args[0]) if isinstance(args[0], SparseFake) else func(*args, **kwargs)


def _as_dense(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    if func._schema.is_mutable:
        raise NotImplementedError(f"{func} of a sparse matrix is not known without its values")
    books.notes[AS_DENSE] += 1
    args, kwargs = tree_map(lambda one: _dense(one) if isinstance(one, SparseFake) else one, (args, kwargs))
    return func(*args, **kwargs)


_TURNED = {
    **{torch.sparse_csr: torch.sparse_csc, torch.sparse_csc: torch.sparse_csr},
    **{torch.sparse_bsr: torch.sparse_bsc, torch.sparse_bsc: torch.sparse_bsr},
}
_TO_ROWS = {"_to_sparse_csr": torch.sparse_csr, "_to_sparse_csc": torch.sparse_csc}
_MAKERS: dict[Any, Answer] = {
    aten._sparse_coo_tensor_with_dims_and_tensors.default: _of_coordinates,
    aten._sparse_compressed_tensor_unsafe.default: _of_rows,
    aten.sparse_compressed_tensor.comp_plain_value_size: _of_rows,
    aten._sparse_mask_projection.default: _masked,
    aten._to_sparse.default: _of_dense,
    aten._to_sparse.sparse_dim: _of_dense,
    aten._to_sparse_csr.default: _of_dense,
    aten._to_sparse_csc.default: _of_dense,
    aten.sparse_mask.default: _masked,
    aten._coalesce.default: _coalesced,
}
_SAME = (
    "abs asin asinh atan atanh ceil clone conj deg2rad div dropout erf expm1 float_power floor isnan log1p mul"
    " native_dropout neg pow rad2deg relu round sgn sign sin sinh sqrt square tan tanh threshold trunc zeros_like"
    " ones_like rand_like randn_like empty_like"
)
_ANSWERS: dict[str, Answer] = {
    **dict.fromkeys(_SAME.split(), _of_its_values),
    **dict.fromkeys(("mul_", "div_", "neg_", "zero_", "abs_", "sqrt_", "relu_", "pow_", "copy_"), _in_place),
    **dict.fromkeys(("indices", "_indices", "crow_indices", "ccol_indices"), _part(0)),
    **dict.fromkeys(("col_indices", "row_indices"), _part(1)),
    **dict.fromkeys(("values", "_values"), _part(-1)),
    **dict.fromkeys(("_sparse_softmax", "_sparse_log_softmax"), _told(lambda it: it.of_values(it.values_.clone()))),
    **dict.fromkeys(("detach", "alias", "view_as"), _told(lambda it: it.of_values(it.values_))),
    **dict.fromkeys(("t", "transpose", "permute"), _turned),
    **dict.fromkeys(("mm", "mv", "bmm", "addmm", "addmv", "_sparse_addmm", "_sparse_mm", "baddbmm"), _product),
    **dict.fromkeys(("_sparse_sparse_matmul", "sspaddmm", "hspmm"), _product),
    **dict.fromkeys(("add", "sub"), _joined),
    **dict.fromkeys(("_to_sparse", "_to_sparse_csr", "_to_sparse_csc"), _to_sparse),
    "_coalesce": _coalesced,
    "_coalesced_": _told(lambda it: it),
    "_to_copy": _copied,
    "_to_dense": _to_dense,
    "_sparse_sum": _summed,
    "layout": _told(lambda it: it.kind),
    "_nnz": _told(lambda it: it.entries),
    "is_coalesced": _told(lambda it: it.coalesced),
    "sparse_dim": _told(lambda it: it.parts[0].shape[0] if it.kind is COO else 2),
    "dense_dim": _told(lambda it: it.dim() - (it.parts[0].shape[0] if it.kind is COO else 2)),
    "sparse_mask": _masked,
    "_sparse_mask_projection": _masked,
}
