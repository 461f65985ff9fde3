"""Large matrices in parts, as linear layers and embeddings use them: no device has one whole, nor its gradient.

A linear layer multiplies by one piece after the other, which comes from the rank that has it, and in a backward sums
the piece's gradient for that rank. An embedding looks up where the rows are: the ranks hear what each of them wants,
and add up what they have found; gradients go the same way back. So it is where a matrix is a parameter that is in parts
itself. Whoever else looks at it has it gathered, as any other: see shards.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import Function
from torch.nn import functional

from ...devices import sides
from ..rungs.host import is_fake
from . import shards as shards_of
from .gradients import gradients_in
from .parts import rows_of
from .passages import add, counts, grads_needed, join, meet
from .shard import Shard
from .shards import Shards

PIECES = 8  # of a matrix, or as many as there are ranks
_OF_TORCH = "torch.embedding"  # which is given its matrix first
_AFTER_PADDING = ("max_norm", "norm_type", "scale_grad_by_freq", "sparse")
_NOT_BY_PIECES = ("max_norm", "scale_grad_by_freq", "sparse")


def in_pieces(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Callable[..., Any]:
    """What does the same by pieces, where that function is given a large matrix that is in parts; else, itself."""
    if func is functional.linear and _takes(weight_of(func.__name__, args, kwargs)):
        return linear_in_pieces
    if func is functional.embedding and _takes(weight_of(func.__name__, args, kwargs)):
        given = dict(zip(_AFTER_PADDING, args[3:], strict=False)) | kwargs
        return func if any(given.get(name) for name in _NOT_BY_PIECES) else embedding_in_pieces
    if func is torch.embedding and _takes(weight_of(_OF_TORCH, args, kwargs)):
        given = dict(zip(_AFTER_PADDING[2:], args[3:], strict=False)) | kwargs
        return func if any(given.get(name) for name in _NOT_BY_PIECES) else torch_embedding_in_pieces
    return func


def weight_of(name: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """The matrix that one of them is given."""
    at = 0 if name in (_OF_TORCH, torch_embedding_in_pieces.__name__) else 1
    return args[at] if len(args) > at else kwargs.get("weight")


def is_large(t: Any) -> bool:
    """Whether it is used by pieces."""
    shards = shards_of.current
    return shards is not None and isinstance(t, torch.nn.Parameter) and gradients_in(shards).is_large(t)


def _takes(t: Any) -> bool:
    return is_large(t) and torch._C._functorch.peek_interpreter_stack() is None  # torch.func does not know of pieces


def linear_in_pieces(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """As torch's."""
    found = _parted(weight) if input.shape[-1] == weight.shape[1] else None
    if found is None:
        return functional.linear(input, _met(weight, input), bias)
    made = _Linear.apply(*found, weight, input, bias, rows_of(input) is not None)  # type: ignore[no-untyped-call]
    assert isinstance(made, torch.Tensor)
    return made


def embedding_in_pieces(
    input: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    """As torch's."""
    found = _parted(weight)
    if found is None:
        return functional.embedding(input, _met(weight, input), padding_idx)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    made = _Embedding.apply(*found, weight, input, rows_of(input) is not None, padding)  # type: ignore[no-untyped-call]
    assert isinstance(made, torch.Tensor)
    return made


def torch_embedding_in_pieces(
    weight: torch.Tensor, indices: torch.Tensor, padding_idx: int = -1, *_: Any, **__: Any
) -> torch.Tensor:
    """As torch's, which its function for modules calls, and a trial run sees."""
    return embedding_in_pieces(indices, weight, None if padding_idx < 0 else padding_idx)


IN_PIECES = tuple(one.__name__ for one in (linear_in_pieces, embedding_in_pieces, torch_embedding_in_pieces))


def _parted(weight: torch.Tensor) -> tuple[Shards, Shard] | None:
    shards = shards_of.current
    shard = shards.in_parts_now(weight) if shards is not None else None
    if shards is None or shard is None or shard.each % weight.shape[1]:
        return None
    return shards, shard


def _met(weight: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
    assert shards_of.current is not None
    if rows_of(given) is None or not grads_needed(weight):
        return weight
    return meet(shards_of.current.group, [weight])[0]


@dataclass(frozen=True)
class _Piece:
    """Some rows of a matrix."""

    rank: int  # that has them
    begin: int
    end: int
    first: int  # row of that rank

    @property
    def rows(self) -> slice:
        return slice(self.begin, self.end)

    @property
    def there(self) -> slice:
        """The same, in that rank's part."""
        return slice(self.begin - self.first, self.end - self.first)


def _pieces(shards: Shards, shard: Shard, columns: int) -> Iterator[_Piece]:
    rows, each = shard.numel // columns, shard.each // columns
    step = -(-each // -(-PIECES // shards.group.size))
    for rank in range(shards.group.size):
        first, end = min(rank * each, rows), min((rank + 1) * each, rows)
        for begin in range(first, end, step):
            yield _Piece(rank, begin, min(begin + step, end), first)


def _values(shards: Shards, shard: Shard, piece: _Piece, columns: int) -> torch.Tensor:
    """Handed round by who has it."""
    if piece.rank == shards.group.rank:
        found = shard.mine.view(-1, columns)[piece.there]
    else:
        found = shard.mine.new_empty((piece.end - piece.begin, columns))
        if sides.on_device(shard.mine.untyped_storage()):
            sides.note(found)
    shards.group.broadcast(found, piece.rank)
    return found


def _by_pieces(shards: Shards, shard: Shard, weight: torch.Tensor, *, trains: bool) -> bool:
    """Not where a gradient of this backward is wanted, nor where somebody is handed the matrix's."""
    if torch.is_grad_enabled() or shards.in_parts_now(weight) is not shard:
        return False
    return not trains or gradients_in(shards).are_kept(weight)


class _Linear(Function):
    @staticmethod
    def forward(
        ctx: Any,
        shards: Shards,
        shard: Shard,
        weight: torch.Tensor,
        x: torch.Tensor,
        bias: torch.Tensor | None,
        of_rows: bool,
    ) -> torch.Tensor:
        ctx.shards, ctx.shard, ctx.of_rows = shards, shard, of_rows
        ctx.weight = weight  # what is unpacked is another tensor where somebody has hooks on what is saved
        ctx.save_for_backward(weight, x)
        rows, columns = weight.shape
        given, made = x.reshape(-1, columns), None
        for piece in _pieces(shards, shard, columns):
            beside = None if bias is None else bias[piece.rows]
            one = functional.linear(given, _values(shards, shard, piece, columns), beside)
            made = one.new_empty((*x.shape[:-1], rows)) if made is None else made
            made.view(-1, rows)[:, piece.rows] = one
        assert made is not None
        return made

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        weight, (_, x) = ctx.weight, ctx.saved_tensors
        shards, shard, of_rows = ctx.shards, ctx.shard, ctx.of_rows
        _, _, trains, wants_xs, wants_bias, _ = ctx.needs_input_grad
        rows, columns = weight.shape
        of_all, given = grad.reshape(-1, rows), x.reshape(-1, columns).to(grad.dtype)
        of_bias = of_all.sum(0) if wants_bias else None
        if not _by_pieces(shards, shard, weight, trains=trains):
            met = meet(shards.group, [weight])[0] if of_rows and grads_needed(weight) else weight
            of_x = (of_all @ met.to(grad.dtype)).view(x.shape).to(x.dtype) if wants_xs else None
            of_weight = None
            if trains:
                of_weight = (of_all.t() @ given).to(weight.dtype)
                of_weight = add(shards.group, of_weight) if of_rows else of_weight
                shards.come([weight])
            return None, None, of_weight, of_x, of_bias, None
        of_x, exact = None, torch.promote_types(grad.dtype, torch.float32)  # in half precision each sum would round
        with gradients_in(shards).part(weight, wanted=trains) as mine:
            for piece in _pieces(shards, shard, columns):
                part = of_all[:, piece.rows]
                if wants_xs:
                    one = part @ _values(shards, shard, piece, columns).to(grad.dtype)
                    of_x = one.to(exact) if of_x is None else of_x.add_(one)
                is_own = piece.rank == shards.group.rank
                if mine is not None and (of_rows or is_own):
                    one = (part.t() @ given).to(weight.dtype).contiguous()
                    if of_rows:
                        shards.group.all_reduce(one)
                    if is_own:
                        mine.view(-1, columns)[piece.there].add_(one)
        of_x = None if of_x is None else of_x.view(x.shape).to(x.dtype)
        return None, None, None, of_x, of_bias, None


class _Embedding(Function):
    @staticmethod
    def forward(
        ctx: Any, shards: Shards, shard: Shard, weight: torch.Tensor, x: torch.Tensor, of_rows: bool, padding: int
    ) -> torch.Tensor:
        group, own, columns = shards.group, x.reshape(-1), weight.shape[1]
        sizes = counts(group, own.numel(), own.device) if of_rows else (own.numel(),)
        wanted = join(group, own, 0, sizes) if of_rows else own
        ctx.shards, ctx.shard, ctx.sizes, ctx.of_rows, ctx.padding = shards, shard, sizes, of_rows, padding
        ctx.weight = weight
        ctx.save_for_backward(weight, wanted)
        _check(shard, wanted, weight.shape[0])
        place, is_elsewhere = _places(shard, wanted, columns)
        found = shard.mine.view(-1, columns)[place].masked_fill_(is_elsewhere, 0)
        group.all_reduce(found)
        made = found.new_empty((*x.shape, columns))  # no view: the cell may change it in place
        made.view(-1, columns).copy_(found.narrow(0, sum(sizes[: group.rank]) if of_rows else 0, own.numel()))
        return made

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        weight, (_, wanted) = ctx.weight, ctx.saved_tensors
        shards, shard, columns = ctx.shards, ctx.shard, weight.shape[1]
        of_all = grad.reshape(-1, columns)
        if ctx.of_rows:
            of_all = join(shards.group, of_all, 0, ctx.sizes)
        is_padding = (wanted == ctx.padding).unsqueeze(1)
        if not _by_pieces(shards, shard, weight, trains=True):
            whole = weight.new_zeros(weight.shape).index_add(0, wanted, of_all.masked_fill(is_padding, 0))
            shards.come([weight])
            return None, None, whole, None, None, None
        place, is_elsewhere = _places(shard, wanted, columns)
        with gradients_in(shards).part(weight, wanted=True) as mine:
            assert mine is not None
            mine.view(-1, columns).index_add_(0, place, of_all.masked_fill(is_elsewhere | is_padding, 0))
        return None, None, None, None, None, None


def _check(shard: Shard, wanted: torch.Tensor, rows: int) -> None:
    """As torch does."""
    if is_fake(shard.storage) or not wanted.numel():
        return
    are_there = ((wanted >= 0) & (wanted < rows)).all()
    if shard.storage.device.type != "cpu":
        torch._assert_async(are_there)
    elif not bool(are_there):
        raise IndexError("index out of range in self")


def _places(shard: Shard, wanted: torch.Tensor, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In this rank's part, and where they are in another's, by row."""
    first, rows = shard.own.start // columns, shard.mine.numel() // columns
    place = wanted - first
    is_elsewhere = (place < 0) | (place >= rows)
    return place.clamp(0, rows - 1), is_elsewhere.unsqueeze(1)
