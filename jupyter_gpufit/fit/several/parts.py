"""How a batch is parted over the ranks, and what is known of a tensor of which each rank has some rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from .group import Group
from .passages import counts, join

_MARK = "_gpufit_rows"


@dataclass(frozen=True)
class BatchShare:
    """So many samples for each rank."""

    sizes: tuple[int, ...]
    rank: int

    @property
    def whole(self) -> int:
        return sum(self.sizes)

    @property
    def mine(self) -> int:
        return self.sizes[self.rank]


def share_of(batch: int, group: Group) -> BatchShare:
    """As even as can be; the first ranks have one more."""
    each, left = divmod(batch, group.size)
    return BatchShare(tuple(each + (rank < left) for rank in range(group.size)), group.rank)


@dataclass(frozen=True)
class Rows:
    """Of this tensor each rank has so many rows, along this dimension."""

    dim: int
    sizes: tuple[int, ...]  # empty: by their values, as of those that a mask chose; each rank knows its own number
    outer: int = 1  # so many times over, as words by words where a view has put time before samples

    def __reduce__(self) -> Any:
        return _nothing, ()  # a tensor is saved, or sent, without what holds for one process


def _nothing() -> None:
    return None


def rows_of(t: torch.Tensor) -> Rows | None:
    """None: it is whole, and all ranks have it alike."""
    found: Rows | None = t.__dict__.get(_MARK)
    return found


def mark(t: torch.Tensor, rows: Rows | None) -> None:
    if rows is not None:
        t.__dict__[_MARK] = rows
    else:
        t.__dict__.pop(_MARK, None)


def whole_of(group: Group, t: torch.Tensor) -> torch.Tensor:
    """What one device would have in its place."""
    rows = rows_of(t)
    if rows is None:
        return t
    if rows.outer > 1:
        apart = t.unflatten(rows.dim, (rows.outer, -1))
        return join(group, apart, rows.dim + 1, rows.sizes).flatten(rows.dim, rows.dim + 1)
    return join(group, t, rows.dim, rows.sizes or counts(group, t.shape[rows.dim], t.device))
