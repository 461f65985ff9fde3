"""The bytes of a checkpoint as they pass by: a file's next part, in memory from which it can be written.

A buffer that holds all shows each file as one window; a small one shows it in several (see streaming.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .checksum import Run, Section, runs
from .layout import BLOCK, Image


@dataclass(frozen=True)
class Window:
    """A part of a file, which its runs cover without a gap."""

    start: int  # in the file: where the window's memory begins, at a block's begin
    data: memoryview
    runs: tuple[Run, ...]

    def bytes_of(self, run: Run) -> memoryview:
        return self.data[run.start - self.start : run.end - self.start]

    def blocks_of(self, run: Run, nbytes: int) -> tuple[memoryview, int]:
        """What whoever writes the run writes of a file of `nbytes`, and where: every block is one run's alone.

        A block in which two runs meet is the second one's.
        """
        begin, end = whole(run.start), run.end if run.end == nbytes else whole(run.end)
        return self.data[begin - self.start : end - self.start], begin


Windows: TypeAlias = Callable[[Image, Sequence[Section]], Iterator[Window]]  # of a file with these sections, in order


def in_one(memory: memoryview) -> Windows:
    """The windows on a buffer that holds every file."""

    def windows(image: Image, sections: Sequence[Section]) -> Iterator[Window]:
        yield Window(0, memory[image.start : image.start + image.nbytes], tuple(runs(sections)))

    return windows


def whole(nbytes: int) -> int:
    """As much of it as whole blocks are."""
    return nbytes - nbytes % BLOCK
