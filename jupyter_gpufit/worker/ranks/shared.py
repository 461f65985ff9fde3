"""Collectives of ranks on one machine: sums, gatherings and broadcasts through memory that they share.

Each rank writes its part, all meet (links.py), and each adds up the parts in the order of the ranks: so all have the
same bits, and the same whenever it is run. Two buffers take turns: who writes into one knows by the meeting in between
that all have read what was there before. docs/ranks.md has the figures beside gloo's.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable, Iterator
from typing import NoReturn

import torch

from ...units import MiB
from .links import Links, RankGone
from .reading import Find, ReadingEnds

CHUNK = 1 * MiB  # bytes of one rank's part that are on their way at once: more, and they leave the cache
ALL_ADD = 256 * 1024  # bytes up to which each adds up all of it: a second meeting would cost more
LINE = 64  # bytes between the starts of two shares of a sum
STATS = 4096  # bytes in front, for what each rank says of its memory
_HEAD = struct.Struct("<QBBB")  # its number, what is done, dtype, dimensions
_TAKES = struct.Struct("<QQ")
_DTYPES = tuple(sorted({one for one in vars(torch).values() if isinstance(one, torch.dtype)}, key=str))
_NUMBER = {dtype: number for number, dtype in enumerate(_DTYPES)}
_HALVES = (torch.float16, torch.bfloat16)
_DOES = ("add up", "gather", "broadcast", "meet for")
_SUM, _GATHER, _BROADCAST, _MEET = range(len(_DOES))
_view = torch.frombuffer  # before a slot puts its own in its place


class RankDiffers(Exception):
    """The ranks do not do the same."""

    def __init__(self, rank: int, mine: str, theirs: str) -> None:
        super().__init__(rank, mine, theirs)
        self.rank, self.mine, self.theirs = rank, mine, theirs


Lost = Callable[[RankGone | RankDiffers], NoReturn]


def region(size: int) -> mmap.mmap:
    """Memory for so many ranks, which forked processes share."""
    return mmap.mmap(-1, STATS + (size + 1) * 2 * CHUNK)


def tell_memory(memory: mmap.mmap, rank: int, used: int, peak: int) -> None:
    """What a rank takes of its device, in bytes."""
    _TAKES.pack_into(memory, rank * _TAKES.size, used, peak)


def read_memory(memory: mmap.mmap, rank: int) -> tuple[int, int]:
    """What it takes now, and what it took at the most."""
    used, peak = _TAKES.unpack_from(memory, rank * _TAKES.size)
    return used, peak


class SharedGroup:
    """One rank's view of all: see fit/several/group.py."""

    def __init__(
        self,
        links: Links,
        memory: mmap.mmap,
        lost: Lost,
        patience: float | None = None,
        at_first: float = 1,
        reading: ReadingEnds | None = None,
    ) -> None:
        """`lost`: what to do when one does not come, or does something else; it does not return.

        `at_first`: so many times the patience until all have met once.
        """
        self._links, self.memory, self._lost, self._patience = links, memory, lost, patience
        self._at_first = self._first = at_first
        self._reading = reading
        self._rank, self._size = links.rank, links.size
        self._number = self._turn = 0

    @property
    def rank(self) -> int:
        return self._rank

    @property
    def size(self) -> int:
        return self._size

    def be_alone(self) -> None:
        """From now on nobody else takes part: everything is this rank's own."""
        self._size = 1

    def begin(self) -> None:
        """What they met for until now does not count: the first time is still to come."""
        self._at_first = self._first

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Make it the sum over all ranks."""
        if self._size == 1:
            return
        with torch.no_grad(), torch._C.DisableTorchFunction():  # a slot's mode has no say in it
            flat = tensor.detach().contiguous().view(-1)
            for part in self._parts(flat):
                head = self._head(_SUM, tensor)
                self._add_up(part, head)
            if flat.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(flat.view(tensor.shape))

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """Each rank's, in their order; their shapes may differ."""
        if self._size == 1:
            return [tensor.detach().clone()]
        made = {self._rank: tensor.detach()}
        heads = self._meet(self._head(_GATHER, tensor))
        shapes = {rank: _shape(head) for rank, head in heads.items()} | {self._rank: tuple(tensor.shape)}
        for rank, shape in shapes.items():
            if rank != self._rank:
                made[rank] = tensor.detach().new_empty(shape)  # on the side of the given one
        with torch.no_grad(), torch._C.DisableTorchFunction():
            made[self._rank] = made[self._rank].clone()
            longest = max(math.prod(shape) for shape in shapes.values())
            step = CHUNK // tensor.element_size()
            mine = tensor.detach().contiguous().view(-1)
            for start in range(0, longest, step):
                self._write(mine[start : start + step])
                self._meet(self._head(_MEET, tensor, plain=True))
                for rank, shape in shapes.items():
                    if rank != self._rank and (count := min(step, math.prod(shape) - start)) > 0:
                        made[rank].view(-1)[start : start + count].copy_(self._part(rank, tensor.dtype, count))
        return [made[rank] for rank in range(self._size)]

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        """Make it that of rank `src`."""
        if self._size == 1:
            return
        with torch.no_grad(), torch._C.DisableTorchFunction():
            flat = tensor.detach().contiguous().view(-1)
            for part in self._parts(flat):
                if self._rank == src:
                    self._write(part)
                else:
                    self._turn ^= 1
                self._meet(self._head(_BROADCAST, tensor))
                if self._rank != src:
                    part.copy_(self._part(src, part.dtype, part.numel()))
            if flat.data_ptr() != tensor.data_ptr():
                tensor.detach().copy_(flat.view(tensor.shape))

    def offer(self, find: Find) -> None:
        """Have the others read what is found."""
        if self._reading is not None:
            self._reading.offer(find)

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        """Fill `out` with what another rank offers."""
        assert self._reading is not None
        self._reading.read(rank, number, name, out)

    def meet(self) -> None:
        """Wait until all are here."""
        if self._size > 1:
            self._meet(self._head(_MEET, torch.empty(0)))

    # The parts in the memory ------------------------------------------------------------------------------------------

    def _parts(self, flat: torch.Tensor) -> Iterator[torch.Tensor]:
        step = CHUNK // flat.element_size()
        yield from (flat[start : start + step] for start in range(0, max(1, flat.numel()), step))

    def _add_up(self, part: torch.Tensor, head: bytes) -> None:
        self._write(part)
        self._meet(head)
        count = part.numel()
        if self._size == 2 or count * part.element_size() <= ALL_ADD:
            self._sum(part, 0, count)
            return
        # Each adds up one share, for all.
        share = -(-count // self._size)
        share = -(-share * part.element_size() // LINE) * LINE // part.element_size()
        first, last = min(count, self._rank * share), min(count, (self._rank + 1) * share)
        result = self._part(self._size, part.dtype, count)
        if last > first:
            self._sum(result[first:last], first, last)
        self._meet(head)
        part.copy_(result)

    def _sum(self, out: torch.Tensor, first: int, last: int) -> None:
        """In the order of the ranks; of halves, rounded once."""
        one, other, *more = (self._part(rank, out.dtype, last)[first:] for rank in range(self._size))
        if out.dtype in _HALVES:
            total = one.float().add_(other)
        else:
            total = torch.add(one, other, out=out)
        for part in more:
            total.add_(part)
        if total is not out:
            out.copy_(total)

    def _write(self, part: torch.Tensor) -> None:
        self._turn ^= 1
        if part.numel():
            self._part(self._rank, part.dtype, part.numel()).copy_(part)

    def _part(self, rank: int, dtype: torch.dtype, count: int) -> torch.Tensor:
        """The beginning of a rank's buffer; behind those of all ranks lies that of results."""
        if not count:
            return torch.empty(0, dtype=dtype)
        offset = STATS + (rank * 2 + self._turn) * CHUNK
        return _view(self.memory, dtype=dtype, count=count, offset=offset)

    # Meeting ----------------------------------------------------------------------------------------------------------

    def _head(self, does: int, tensor: torch.Tensor, *, plain: bool = False) -> bytes:
        self._number += 1
        shape = () if plain else tuple(tensor.shape)
        return _HEAD.pack(self._number, does, _NUMBER[tensor.dtype], len(shape)) + struct.pack(
            f"<{len(shape)}Q", *shape
        )

    def _meet(self, head: bytes) -> dict[int, bytes]:
        """Wait for all; and see that all do the same, by what they say of it."""
        gone: RankGone | None = None
        heads: dict[int, bytes] = {}
        try:
            heads = self._links.exchange(head, self._patience and self._patience * self._at_first)
            self._at_first = 1
        except RankGone as error:
            gone = error
        if gone is not None:
            self._lost(gone)  # outside of the handler: its error shows none of ours behind it
        alike = len(head) if head[8] != _GATHER else _HEAD.size
        for rank, theirs in heads.items():
            if theirs[:alike] != head[:alike]:
                self._lost(RankDiffers(rank, _words(head), _words(theirs)))
        return heads


def _shape(head: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{(len(head) - _HEAD.size) // 8}Q", head[_HEAD.size :])


def _words(head: bytes) -> str:
    number, does, dtype, _ = _HEAD.unpack(head[: _HEAD.size])
    what = f"{str(_DTYPES[dtype]).removeprefix('torch.')} of shape {_shape(head)}"
    return f"{_DOES[does]} {what}, as number {number}"
