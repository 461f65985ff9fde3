"""Memory that CUDA's kernels take and fake kernels do not show, and what a GPU computes in place where fakes do not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ...devices.card import Card
from ...units import MiB

if TYPE_CHECKING:
    from .entries import BookEntry

aten = torch.ops.aten
GEMMS = frozenset({"mm", "addmm", "bmm", "baddbmm", "linear", "_addmm_activation", "addbmm"})
ACCUMULATES = frozenset({aten.add.Tensor, aten.clone.default, aten.new_empty_strided.default})


def blas_workspace(card: Card) -> int:
    """What torch gives cuBLAS per calling thread (CUDABlas.cpp): 4096 KiB x 2 + 16 KiB x 8, or 32 MiB on Hopper."""
    return 32 * MiB if card.capability >= (9, 0) else 8_519_680


def is_grouped(func: Any, args: Sequence[Any]) -> bool:
    """Whether this is a convolution in several groups."""
    if "convolution" not in func._opname or "backward" in func._opname:
        return False
    at = next((at for at, argument in enumerate(func._schema.arguments) if argument.name == "groups"), len(args))
    return at < len(args) and args[at] > 1


def hidden_bytes(op: str, args: Sequence[Any]) -> int:
    """Bytes that the operator's kernel takes and gives back."""
    formula = _HIDDEN.get(op)
    return formula(args) if formula else 0


def _flash(args: Sequence[Any]) -> int:
    """A float32 accumulator of dq and one float per row; rows are padded to 128, columns to 32."""
    batch, heads, rows, columns = args[1].shape
    return int(4 * batch * heads * _up(rows, 128) * (_up(columns, 32) + 1))


def _efficient(args: Sequence[Any]) -> int:
    """One float per row, and in half precision the accumulator of dq."""
    batch, heads, rows, columns = args[1].shape
    return int(4 * batch * heads * rows * (1 + (columns if args[1].dtype != torch.float32 else 0)))


def _embedding(args: Sequence[Any]) -> int:
    """Four int64 arrays, with which the indices are sorted."""
    return int(32 * args[1].numel())


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


_HIDDEN: dict[str, Callable[[Sequence[Any]], int]] = {
    "_scaled_dot_product_flash_attention_backward": _flash,
    "_scaled_dot_product_efficient_attention_backward": _efficient,
    "embedding_dense_backward": _embedding,
}


def in_place(events: Sequence[tuple[int, bool]], entries: Sequence[BookEntry]) -> list[tuple[int, bool]]:
    """Merge `alloc(new); free(old)` of one size in backward: on a GPU autograd does old.add_(new).

    For tensor subclasses, as fakes are, it accumulates out of place; a ResNet-50 came out 5 % too high. What a plan
    sends to the host and brings back is neither freed nor allocated there.
    """
    born: dict[int, int] = {}
    died: dict[int, int] = {}
    for at, (block, _) in enumerate(events):
        born.setdefault(block, at)
        died[block] = at
    root: dict[int, int] = {}
    skipped: set[int] = set()
    merged: list[tuple[int, bool]] = []
    for at, (block, alive) in enumerate(events):
        if at in skipped:
            continue
        old = _freed_at_once(events, at, entries[block].alias) if alive and at == born[block] else None
        if old is not None and old == died[events[old][0]]:
            gone = events[old][0]
            root[block] = root.get(gone, gone)
            skipped.add(old)
            _inherit(entries[root[block]], entries[block])
        else:
            merged.append((root.get(block, block), alive))
    return merged


def _freed_at_once(events: Sequence[tuple[int, bool]], at: int, alias: Sequence[int]) -> int | None:
    for following in range(at + 1, min(at + 4, len(events)) if alias else 0):
        block, alive = events[following]
        if alive:
            return None
        if block in alias:
            return following
    return None


def _inherit(old: BookEntry, new: BookEntry) -> None:
    old.kind = new.kind or old.kind
    old.saved = old.saved or new.saved
