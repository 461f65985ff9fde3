"""Blocks of a device's memory and the pools of free ones, as torch's caching allocator keeps them; pure."""

from __future__ import annotations

from bisect import bisect_left, insort

from .options import LARGE_SEGMENT, NO_LIMIT, SMALL_SEGMENT, AllocatorOptions


class Block:
    """A run of bytes of one segment, free or given out; its neighbours are those of the same segment."""

    __slots__ = ("before", "behind", "born", "free", "pool", "size", "start")

    def __init__(self, pool: Pool, start: int, size: int) -> None:
        self.pool, self.start, self.size = pool, start, size
        self.free = False
        self.born = 0  # the pool's count of searches when the block was cached
        self.before: Block | None = None
        self.behind: Block | None = None

    def is_whole_segment(self) -> bool:
        return self.before is None and self.behind is None

    def split(self, size: int) -> Block:
        """Keep the first `size` bytes; the rest becomes a neighbour."""
        rest = Block(self.pool, self.start + size, self.size - size)
        rest.before, rest.behind = self, self.behind
        if self.behind is not None:
            self.behind.before = rest
        self.behind, self.size = rest, size
        return rest

    def swallow_next(self) -> None:
        """Become one with the neighbour behind."""
        gone = self.behind
        assert gone is not None
        self.size += gone.size
        self.behind = gone.behind
        if gone.behind is not None:
            gone.behind.before = self


class Pool:
    """The free blocks of one kind, smallest first, those of one size by address."""

    def __init__(self, small: bool) -> None:
        self.small = small
        self.page = SMALL_SEGMENT if small else LARGE_SEGMENT
        self.blocks: list[tuple[int, int, Block]] = []
        self.searches = 0

    def add(self, block: Block) -> None:
        block.free, block.born = True, self.searches
        insort(self.blocks, (block.size, block.start, block))

    def remove(self, block: Block) -> None:
        block.free = False
        del self.blocks[bisect_left(self.blocks, (block.size, block.start))]

    def best_fit(self, size: int, options: AllocatorOptions) -> Block | None:
        self.searches += 1
        at = bisect_left(self.blocks, (size,))
        if at == len(self.blocks):
            return None
        found, _, block = self.blocks[at]
        limit = options.max_split_size
        if limit != NO_LIMIT:
            if size < limit <= found or (size >= limit and found >= size + options.max_non_split_rounding):
                return None
        del self.blocks[at]
        block.free = False
        return block
