"""Which runs of bytes go into a checkpoint as one blob. Pure.

A list of 150,000 small arrays is as many runs: a blob for each, with its name, its place and its checksum, took ten
seconds to save. Small ones that follow each other go together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

SMALL = 4096  # bytes: from here on a run has a blob of its own
PACK = 1 << 20  # bytes: where one of them changes, no more than this is written again


class Extent(Protocol):
    @property
    def offset(self) -> int: ...

    @property
    def nbytes(self) -> int: ...


R = TypeVar("R", bound=Extent)


def packs(runs: Iterable[R], alone: Callable[[R], bool]) -> list[list[R]]:
    """The runs, which are in order of offset, in groups that go together. `alone`: which have a blob of their own."""
    found: list[list[R]] = []
    is_open = False
    for run in runs:
        small = run.nbytes < SMALL and not alone(run)
        if small and is_open and _end(run) - found[-1][0].offset <= PACK:
            found[-1].append(run)
        else:
            found.append([run])
        is_open = small
    return found


def extent(pack: Sequence[Extent]) -> tuple[int, int]:
    """Where a group begins, and how many bytes it is long, with what lies between."""
    return pack[0].offset, _end(pack[-1]) - pack[0].offset


def _end(run: Extent) -> int:
    return run.offset + run.nbytes
