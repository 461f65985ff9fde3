"""A model of torch's caching allocator: what requests in this order make it reserve, and when it would run out; pure.

The rules are those of torch 2.13 (c10/core/AllocatorConfig.h, c10/cuda/CUDACachingAllocator.cpp). One stream is
assumed; `record_stream`, CUDA graphs' pools and `backend:cudaMallocAsync` are not modelled. Of expandable segments it
knows one growing range per pool, whose whole free pages go back when memory ends; real ones also fill such holes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from ...units import MiB
from .blocks import Block, Pool
from .options import BLOCK, DEFAULT, LARGE_SEGMENT, NO_LIMIT, SMALL_SEGMENT, AllocatorOptions
from .record import Change

SMALL = 1 * MiB  # at most this comes from the small pool
LARGE = 10 * MiB  # from here on a request gets a segment of its own size
SEGMENT_ROUNDING = 2 * MiB
CAPACITY_STEP = 16 * MiB  # to which the smallest capacity is searched


@dataclass(frozen=True)
class Replay:
    """What a run of requests took."""

    allocated: int = 0  # bytes at the most in blocks that were given out
    reserved: int = 0  # bytes at the most taken from the device
    peak: int = -1  # index of the change after which most was allocated
    retries: int = 0  # how often everything cached had to go back for one request
    fits: bool = True  # False: it ended in an out-of-memory error, at the change after the last counted


def replay(
    sizes: Sequence[int], changes: Sequence[Change], options: AllocatorOptions = DEFAULT, capacity: int | None = None
) -> Replay:
    """Play births and deaths of blocks of these sizes through an allocator that may take `capacity` bytes."""
    heap = (_Expandable if options.expandable_segments else _Segments)(options, capacity)
    given: dict[int, Block | None] = {}
    highest, peak = 0, -1
    for index, change in enumerate(changes):
        if not change.alive:
            if (block := given.pop(change.block)) is not None:
                heap.free(block)
        elif (size := sizes[change.block]) == 0:
            given[change.block] = None
        else:
            block = heap.malloc(options.round(size))
            if block is None:
                return Replay(highest, heap.most_reserved, peak, heap.retries, fits=False)
            given[change.block] = block
            if heap.allocated > highest:
                highest, peak = heap.allocated, index
    return Replay(highest, heap.most_reserved, peak, heap.retries)


def smallest_capacity(
    sizes: Sequence[int], changes: Sequence[Change], options: AllocatorOptions = DEFAULT, free_run: Replay | None = None
) -> int:
    """The fewest bytes with which the run still does not end in an out-of-memory error, to 16 MiB."""
    most = free_run or replay(sizes, changes, options)
    low, high = most.allocated, most.reserved  # what is allocated must be reserved; what was reserved is enough
    while high - low > CAPACITY_STEP:
        middle = (low + high) // 2
        if replay(sizes, changes, options, middle).fits:
            high = middle
        else:
            low = middle
    return high


class _Heap:
    """What both kinds of segments share; `allocated` and `reserved` are bytes now."""

    def __init__(self, options: AllocatorOptions, capacity: int | None) -> None:
        self.options, self.capacity = options, capacity
        self.small, self.large = Pool(small=True), Pool(small=False)
        self.allocated = self.reserved = self.most_reserved = self.retries = 0
        self.end = 0  # the next segment's address

    def malloc(self, size: int) -> Block | None:
        pool = self.small if size <= SMALL else self.large
        block = pool.best_fit(size, self.options) or self.grow(pool, size)
        if block is None:
            return None
        if self.is_worth_splitting(pool, size, block.size - size):
            pool.add(block.split(size))
        self.allocated += block.size
        return block

    def free(self, block: Block) -> None:
        self.allocated -= block.size
        pool = block.pool
        if (behind := block.behind) is not None and behind.free:
            pool.remove(behind)
            block.swallow_next()
        if (before := block.before) is not None and before.free:
            pool.remove(before)
            before.swallow_next()
            block = before
        pool.add(block)

    def grow(self, pool: Pool, size: int) -> Block | None:
        """A free block of at least this size, from the device."""
        raise NotImplementedError

    def is_worth_splitting(self, pool: Pool, size: int, rest: int) -> bool:
        raise NotImplementedError

    def reserve(self, size: int) -> bool:
        """Take bytes from the device, unless there are too few."""
        if self.capacity is not None and self.reserved + size > self.capacity:
            return False
        self.reserved += size
        self.most_reserved = max(self.most_reserved, self.reserved)
        return True


class _Segments(_Heap):
    """The default: each segment is one allocation of the device, and goes back only as a whole."""

    def grow(self, pool: Pool, size: int) -> Block | None:
        threshold = self.options.garbage_collection_threshold
        if self.capacity is not None and threshold:  # torch collects only where a memory fraction is set
            self._collect_garbage(int(threshold * self.capacity))
        wanted = _segment_size(size)
        if not (self.reserve(wanted) or (self._release_oversize(pool, size) and self.reserve(wanted))):
            self.retries += 1
            self._release_all()
            if not self.reserve(wanted):
                return None
        block = Block(pool, self.end, wanted)
        self.end += wanted
        return block

    def is_worth_splitting(self, pool: Pool, size: int, rest: int) -> bool:
        if pool.small:
            return rest >= BLOCK
        return size < self.options.max_split_size and rest > SMALL

    def _release(self, block: Block) -> int:
        block.pool.remove(block)
        self.reserved -= block.size
        return block.size

    def _release_all(self) -> None:
        for pool in (self.small, self.large):
            for _, _, block in list(pool.blocks):
                if block.is_whole_segment():
                    self._release(block)

    def _release_oversize(self, pool: Pool, size: int) -> bool:
        """With max_split_size: give back one block that is large enough, or else several, the largest first."""
        limit = self.options.max_split_size
        if limit == NO_LIMIT:
            return False
        wanted = max(size, limit)
        at = bisect_left(pool.blocks, (wanted,))
        if at < len(pool.blocks):
            self._release(pool.blocks[at][2])
            return True
        released = 0
        while released < wanted and pool.blocks and pool.blocks[-1][0] >= limit:
            released += self._release(pool.blocks[-1][2])
        return released >= wanted

    def _collect_garbage(self, allowed: int) -> None:
        """Give back the oldest cached segments until no more than `allowed` bytes are reserved."""
        if self.reserved <= allowed:
            return
        target = self.reserved - allowed
        while target > 0:
            whole = [block for _, _, block in self.large.blocks if block.is_whole_segment()]
            if not whole:
                return
            ages = {id(block): self.large.searches - block.born for block in whole}
            mean = sum(ages.values()) / len(whole)
            target -= sum(self._release(block) for block in whole if ages[id(block)] >= mean)


class _Expandable(_Heap):
    """One range of addresses per pool, which grows and shrinks by pages."""

    def __init__(self, options: AllocatorOptions, capacity: int | None) -> None:
        super().__init__(options, capacity)
        # Stands behind the last block of each range and is never free, so that nothing merges with it.
        self.ends = {pool: Block(pool, 0, 0) for pool in (self.small, self.large)}

    def grow(self, pool: Pool, size: int) -> Block | None:
        last = self.ends[pool].before
        room = last if last is not None and last.free else None
        missing = size - (room.size if room else 0)
        wanted = -(-missing // pool.page) * pool.page
        if not self.reserve(wanted):
            self.retries += 1
            self._unmap(kept=room)
            if not self.reserve(wanted):
                return None
        block = self._append(pool, wanted)
        if room is None:
            return block
        pool.remove(room)
        room.swallow_next()
        return room

    def _append(self, pool: Pool, size: int) -> Block:
        end = self.ends[pool]
        block = Block(pool, end.start, size)
        block.before, block.behind = end.before, end
        if end.before is not None:
            end.before.behind = block
        end.before, end.start = block, end.start + size
        return block

    def is_worth_splitting(self, pool: Pool, size: int, rest: int) -> bool:
        return rest >= BLOCK

    def _unmap(self, *, kept: Block | None) -> None:
        """Give whole free pages back. Each leaves a hole that no block fills again, which real ones can."""
        for pool in (self.small, self.large):
            for _, _, block in list(pool.blocks):
                first = -(-block.start // pool.page) * pool.page
                pages = (block.start + block.size - first) // pool.page
                if pages > 0 and block is not kept:
                    self._cut_out(pool, block, first, pages * pool.page)

    def _cut_out(self, pool: Pool, block: Block, first: int, size: int) -> None:
        pool.remove(block)
        hole = block.split(first - block.start) if first > block.start else block
        if hole.size > size:
            pool.add(hole.split(size))
        if hole is not block:
            pool.add(block)
        self.reserved -= size


def _segment_size(size: int) -> int:
    if size <= SMALL:
        return SMALL_SEGMENT
    if size < LARGE:
        return LARGE_SEGMENT
    return -(-size // SEGMENT_ROUNDING) * SEGMENT_ROUNDING
