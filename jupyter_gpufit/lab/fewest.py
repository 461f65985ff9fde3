"""The fewest of those who could leave, or of what could be given, that are enough; pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TypeVar

One = TypeVar("One")


def fewest(all: Sequence[One], enough: Callable[[Sequence[One]], bool]) -> list[One]:
    """From the first on as many as it takes, without those of them that need not be; none where all are not enough.

    Each question goes through the queue and all claims, and a user may have made any number of them: so it is asked
    for halves, as if more were always as good. What is answered is enough in any case.
    """
    if not all or not enough(all):
        return []
    count = bisect_left(range(1, len(all)), True, key=lambda count: enough(all[:count])) + 1
    return _needed(all[:count], [], enough)


def _needed(some: Sequence[One], others: Sequence[One], enough: Callable[[Sequence[One]], bool]) -> list[One]:
    """Those of them without whom the others are not enough; rather the last ones than the first."""
    if others and enough(others):
        return []
    if len(some) == 1:
        return list(some)
    first, second = some[: len(some) // 2], some[len(some) // 2 :]
    left = _needed(first, [*second, *others], enough)
    return left + _needed(second, [*left, *others], enough)
