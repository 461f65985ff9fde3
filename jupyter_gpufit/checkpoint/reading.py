"""Reading the files of a checkpoint with several threads, and checking them."""

from __future__ import annotations

import mmap
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .checksum import PIECE, Run, Section, Sums, runs
from .manifest import StoredBlob, StoredFile

OWN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # never waits for a fifo that somebody put there

Item = TypeVar("Item")


def threads() -> int:
    return max(2, min(4, os.cpu_count() or 1))


def sums_of(fd: int, file: StoredFile, blobs: Sequence[StoredBlob]) -> list[str]:
    """The checksums of a file's head and of these blobs in it, as they are on the disk."""
    order = sorted(range(len(blobs)), key=lambda number: blobs[number].at)
    sections = [Section(0, file.head), *(Section(blobs[number].at, blobs[number].nbytes) for number in order)]
    sums = Sums(sections)
    own = threading.local()

    def check(run: Run) -> None:
        if not hasattr(own, "buffer"):
            own.buffer = memoryview(mmap.mmap(-1, PIECE))
        data = own.buffer[: run.end - run.start]
        read_at(fd, data, run.start)
        sums.take(run, data)

    in_threads(check, runs(sections))
    found = {number: sums.of(place) for place, number in enumerate(order, start=1)}
    return [sums.of(0), *(found[number] for number in range(len(blobs)))]


def read_at(fd: int, into: memoryview, at: int) -> None:
    """Fill the view; EOFError where the file ends before."""
    while into:
        got = os.preadv(fd, [into], at)
        if not got:
            raise EOFError
        into, at = into[got:], at + got


def read_all(wanted: Iterable[tuple[int, memoryview, int]]) -> None:
    """Fill many views, each (file, view, from where in it), in shares of a size that keeps all threads at work."""
    shares = [
        (fd, view[start : start + PIECE], at + start) for fd, view, at in wanted for start in range(0, len(view), PIECE)
    ]
    in_threads(lambda share: read_at(*share), shares)


def in_threads(work: Callable[[Item], None], items: Iterable[Item]) -> None:
    """Do all; a few at once, and without threads where there is only one. The first failure ends it."""
    left = deque(items)

    def help_out() -> None:
        while True:
            try:
                item = left.popleft()
            except IndexError:
                return
            try:
                work(item)
            except BaseException:
                left.clear()
                raise

    helpers = min(threads(), len(left)) - 1
    if helpers < 1:
        help_out()
        return
    # Threads of the moment: a training that forks (DataLoader does) is better off without threads of ours.
    with ThreadPoolExecutor(helpers) as pool:
        helping = [pool.submit(help_out) for _ in range(helpers)]
        help_out()
    for one in helping:
        one.result()
