"""A storage of which each rank has an equal part, and which storages may be such ones; see shards.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ..rungs.host import HostCopy, is_fake
from ..rungs.operations import can_leave
from .group import Group

LEAST = 4096  # numbers: of a smaller one each rank keeps all
_ROWS = 64  # for each rank: else one row more would be no equal part


def part_of(t: torch.Tensor, group: Group) -> tuple[slice, int]:
    """This rank's numbers of it, and how many a part has; the last one may have fewer. Rows of a matrix stay whole."""
    row = t.shape[-1] if t.dim() == 2 and t.shape[0] >= _ROWS * group.size else 1
    numel = t.numel()
    each = -(-numel // (row * group.size)) * row
    first = min(group.rank * each, numel)
    return slice(first, min(first + each, numel)), each


@dataclass(eq=False)
class Shard:
    """A storage of which this rank has a part."""

    ref: Any  # a weak one: nothing here keeps it alive
    number: int  # the same on all ranks
    address: int
    numel: int
    each: int
    own: slice
    mine: torch.Tensor
    gradient_of: Any = None  # a weak one
    here: bool = True  # whole, on the device
    stays: bool = False  # so, for good
    copy: HostCopy | None = None  # whole, on the host
    is_hosts: bool = False  # it is gathered from there, since there are no other ranks any more

    @property
    def nbytes(self) -> int:
        return self.numel * self.mine.element_size()

    @property
    def storage(self) -> torch.UntypedStorage:
        found = self.ref()
        assert isinstance(found, torch.UntypedStorage)
        return found


def can_part(t: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """One that is all of its storage, and of no class of the cell's own."""
    if t.layout is not torch.strided or not t.is_contiguous() or storage.nbytes() != t.nbytes:
        return False
    is_plain = is_fake(storage) or type(t) in (torch.Tensor, torch.nn.Parameter)
    return t.numel() >= LEAST and is_plain and can_leave(storage)


def flat_on(storage: torch.UntypedStorage, shard: Shard) -> torch.Tensor:
    made = torch.empty(0, dtype=shard.mine.dtype, device=storage.device)
    return made.set_(storage, 0, (shard.numel,), (1,))
