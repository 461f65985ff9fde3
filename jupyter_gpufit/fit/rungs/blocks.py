"""Into which blocks a model is cut for recomputing; pure.

A block that is too small hands on all that it keeps, and one that is too large is in memory whole when it is computed
again. Between them lies the cut with the least at the peak: what stands outside of blocks, what each block hands on,
and the largest block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..plan import ModelPart

_LEAST_GAIN = 0.01  # of all that is kept; a block that saves less is not worth its time
_MOST_SIZES = 64  # that are tried


def blocks_of(parts: Sequence[ModelPart]) -> list[ModelPart]:
    """The best cut, in the order in which they run; empty: none saves anything."""
    every = sum(part.kept for part in parts if not part.path)
    best: list[ModelPart] = []
    least = every
    for size in _sizes(parts):
        blocks = list(_cut(parts, size, every))
        left = every - sum(map(_gain, blocks)) + max((block.kept for block in blocks), default=0)
        if blocks and left < least:
            best, least = blocks, left
    return sorted(best, key=lambda part: part.order)


def _gain(part: ModelPart) -> int:
    return part.kept - part.hands_on


def _sizes(parts: Sequence[ModelPart]) -> list[int]:
    sizes = sorted({part.kept for part in parts if part.kept})
    return sizes[:: -(-len(sizes) // _MOST_SIZES)] if sizes else []


def _cut(parts: Sequence[ModelPart], size: int, every: int) -> Iterator[ModelPart]:
    """The outermost modules that keep so much at the most and may run twice, with all that is in them."""
    bars = [part for part in parts if part.why_not]
    taken: list[ModelPart] = []
    for part in sorted(parts, key=lambda part: (part.model, part.path.count("."), part.path)):
        fits = part.path and part.kept <= size and _gain(part) > _LEAST_GAIN * every
        if not fits or any(other.bars(part) for other in bars) or any(block.holds(part) for block in taken):
            continue
        taken.append(part)
        yield part
