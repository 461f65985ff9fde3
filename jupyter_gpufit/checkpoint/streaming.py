"""A checkpoint without the buffer, where the host's memory has no room for one.

The training stands still while its bytes pass through a small window to the disk: seconds instead of a tenth of one,
and the same files. Only what lies on a device, or is not contiguous, is copied whole, one blob at a time.
"""

from __future__ import annotations

import ctypes
import mmap
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from ..units import MiB
from .checksum import Run, Section, runs
from .layout import BLOCK, Image, Layout
from .staging import copy_all
from .values import Blob
from .windows import Window, whole

SIZE = 64 * MiB  # bytes of a window


def room_for(layout: Layout, blobs: Sequence[Blob]) -> int:
    """Bytes of host memory that streaming takes at the most."""
    numbers = (number for image in layout.images for number in image.blobs)
    largest = max((blobs[number].nbytes for number in numbers if blobs[number].address is None), default=0)
    return 2 * SIZE + BLOCK + largest  # the window, the copies of small blobs that it shows, and one that goes on


class CheckpointStream:
    """The windows on a training that stands still; see windows.Windows."""

    def __init__(self, layout: Layout, blobs: Sequence[Blob]) -> None:
        self._heads = {image.file: head for image, head in zip(layout.images, layout.heads, strict=True)}
        self._blobs = blobs
        self._memory = mmap.mmap(-1, SIZE + BLOCK)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._copies: dict[int, ctypes.Array[ctypes.c_char]] = {}  # of blobs that have no address, by their number

    def __call__(self, image: Image, sections: Sequence[Section]) -> Iterator[Window]:
        ends = {number: at + self._blobs[number].nbytes for number, at in zip(image.blobs, image.at, strict=True)}
        for several in _grouped(runs(sections)):
            begin, end = several[0].start, several[-1].end
            start = whole(begin)  # the bytes before `begin` are the last window's: its last block was not whole
            self._fill(image, begin, end, start)
            yield Window(start, memoryview(self._memory)[: end - start], several)
            rest = end - whole(end)
            ctypes.memmove(self._address, self._address + whole(end) - start, rest)
            self._copies = {number: copy for number, copy in self._copies.items() if ends[number] > end}

    def _fill(self, image: Image, begin: int, end: int, start: int) -> None:
        """Put the file's bytes from `begin` to `end` into the window that begins at `start`."""
        head = self._heads[image.file][begin : min(end, image.head)]
        memoryview(self._memory)[begin - start : begin - start + len(head)] = head
        pieces = []
        for place in range(max(0, bisect_right(image.at, begin) - 1), len(image.at)):
            number, at = image.blobs[place], image.at[place]
            if at >= end:
                break
            first, last = max(begin, at), min(end, at + self._blobs[number].nbytes)
            if last > first:
                pieces.append((self._address + first - start, self._source(number) + first - at, last - first))
        copy_all(pieces)

    def _source(self, number: int) -> int:
        """The address of a blob's bytes."""
        blob = self._blobs[number]
        if blob.address is not None:
            return blob.address
        if number not in self._copies:
            copy = (ctypes.c_char * blob.nbytes)()
            blob.write(memoryview(copy).cast("B"))
            self._copies[number] = copy
        return ctypes.addressof(self._copies[number])


def _grouped(all_runs: Iterator[Run]) -> Iterator[tuple[Run, ...]]:
    """As many runs at once as a window holds."""
    found: list[Run] = []
    for run in all_runs:
        if found and run.end - found[0].start > SIZE:
            yield tuple(found)
            found = []
        found.append(run)
    if found:
        yield tuple(found)
