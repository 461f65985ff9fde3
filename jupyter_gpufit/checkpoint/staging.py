"""The buffer a training is copied into: memory shared with the process that writes, kept and touched once.

Copying into memory that was touched before is five times as fast as into fresh memory, and its speed is the pause. It
is a memfd and no file in /dev/shm: a container often has 64 MiB there, and a memfd leaves nothing behind.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from ..system.memory import free_memory
from ..units import MiB
from .checksum import PIECE
from .reading import in_threads

_GRAIN = 64 * MiB  # the buffer grows by whole grains, so that a few more tensors do not move it
_DONT_FORK, _POPULATE_WRITE = 10, 23  # MADV_*; the latter since Linux 5.14


class NoRoom(Exception):
    """The buffer would need more host memory than is free."""

    def __init__(self, needed: int, free: int) -> None:
        self.needed, self.free = needed, free  # bytes


class Staging:
    """The buffer. Whoever has a view of it must have let go before it grows."""

    def __init__(self, free: Callable[[], int] | None = None) -> None:
        """`free`: how many bytes of memory this process may still take; by default free_memory()."""
        self._free = free or free_memory
        self.fd = os.memfd_create("gpufit-checkpoint", os.MFD_CLOEXEC)
        self.size = 0  # bytes of host memory it takes
        self.address = 0
        self._map: mmap.mmap | None = None

    def reserve(self, nbytes: int) -> None:
        """Make it at least so large. Raises NoRoom rather than let the system kill the training for want of memory."""
        if not (more := self.growth(nbytes)):
            return
        self.check(more)
        size = self.size + more
        os.ftruncate(self.fd, size)
        self._map = mmap.mmap(self.fd, size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        with suppress(OSError):
            self._map.madvise(_DONT_FORK)  # a forked worker of a DataLoader would keep it from being freed
        # Untouched memory would make the pause four times as long. All of it: the mapping is new.
        in_threads(self._touch, range(0, size, PIECE))
        self.size = size

    def check(self, nbytes: int) -> None:
        """Raise NoRoom where so many bytes more are not to be had."""
        if nbytes and nbytes > (free := self._free()):  # asked only where it matters: it takes a millisecond
            raise NoRoom(nbytes, free)

    def growth(self, nbytes: int) -> int:
        """By how many bytes it must grow to hold so many."""
        return max(0, -(-nbytes // _GRAIN) * _GRAIN - self.size)

    def view(self, start: int, nbytes: int) -> memoryview:
        assert self._map is not None and start + nbytes <= self.size
        return memoryview(self._map)[start : start + nbytes]

    def close(self) -> None:
        self._map = None
        if self.fd >= 0:
            os.close(self.fd)
        self.fd, self.size = -1, 0

    def _touch(self, start: int) -> None:
        assert self._map is not None
        try:
            self._map.madvise(_POPULATE_WRITE, start, PIECE)
        except OSError:  # an older Linux
            ctypes.memset(self.address + start, 0, PIECE)


def copy_all(pieces: Iterable[tuple[int, int, int]]) -> None:
    """Copy bytes, each piece (to this address, from that address, so many), with a few threads."""

    def copy(share: tuple[int, int, int]) -> None:
        ctypes.memmove(*share)  # without the interpreter's lock

    shares = [
        (to + at, source + at, min(PIECE, nbytes - at))
        for to, source, nbytes in pieces
        for at in range(0, nbytes, PIECE)
    ]
    in_threads(copy, shares)
