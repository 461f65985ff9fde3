"""Bytes that two processes share: memory without a name, which the system frees when nobody holds it any more.

A Memory is a few memfds laid end to end. More than one, because the kernel fills one file from one thread only: on two
cores, two files take 0.45 s for 1 GiB where one file takes 0.61 s.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from ..units import MiB

PAGE = os.sysconf("SC_PAGE_SIZE")
_PART = 64 * MiB  # one file per so many bytes, up to one per core
_STEP = 16 * MiB  # bytes written by one call
_PROT_NONE, _PROT_READ, _PROT_WRITE = 0, 1, 2
_SHARED, _PRIVATE, _FIXED, _ANONYMOUS, _NORESERVE = 0x01, 0x02, 0x10, 0x20, 0x4000
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02
# What /proc/self/pagemap tells of a page in three bits: in memory or swapped out, and of a file.
_OWN = bytes(bool(byte & 0b1100_0000 and not byte & 0b0010_0000) for byte in range(256))
_RUN = re.compile(b"\x01+")

Buffer = Any  # a ctypes array over mapped bytes; the mapping lives as long as it does


@dataclass(frozen=True)
class Piece:
    """Bytes of this process that go to a place in a Memory."""

    address: int
    nbytes: int
    offset: int


class GraphMemory:
    """A run of bytes in one or more files, mapped and saved as one. It owns the files and closes them with itself."""

    def __init__(self, fds: Sequence[int]) -> None:
        self.fds = tuple(fds)
        self._ends = list(accumulate(os.fstat(fd).st_size for fd in self.fds))
        self.size = self._ends[-1] if self._ends else 0  # bytes
        self._closed = weakref.finalize(self, _close_all, self.fds)

    @classmethod
    def create(cls, size: int) -> GraphMemory:
        parts = max(1, min(4, os.cpu_count() or 1, size // _PART))
        part = -(-size // parts // PAGE) * PAGE
        fds = [os.memfd_create("gpufit", os.MFD_CLOEXEC) for _ in range(parts)]
        for number, fd in enumerate(fds):
            os.ftruncate(fd, max(0, min(part, size - number * part)))
        return cls(fds)

    @classmethod
    def open(cls, path: Path) -> GraphMemory:
        return cls([os.open(path, os.O_RDONLY | os.O_CLOEXEC)])

    def write(self, pieces: Iterable[Piece]) -> None:
        """Copy bytes in, each file from its own thread."""
        jobs: list[list[Piece]] = [[] for _ in self.fds]
        for piece in pieces:
            for file, inside, at, nbytes in self._cut(piece.offset, piece.nbytes):
                jobs[file].append(Piece(piece.address + at, nbytes, inside))
        with ThreadPoolExecutor(len(self.fds)) as pool:
            list(pool.map(_write_all, self.fds, jobs))

    def read(self, offset: int, nbytes: int) -> bytearray:
        """A private copy of these bytes."""
        found = bytearray(nbytes)
        for file, inside, at, size in self._cut(offset, nbytes):
            os.preadv(self.fds[file], [memoryview(found)[at : at + size]], inside)
        return found

    def map(self, offset: int, nbytes: int, *, private: bool = False, give_back: bool = False) -> Buffer:
        """These bytes as a buffer. `private`: changes stay here; `give_back`: unmapping frees them for everybody."""
        start = offset - offset % PAGE
        length = offset + nbytes - start
        if not nbytes:
            return (ctypes.c_char * 0)()
        base = _mmap(None, length, _PROT_NONE, _PRIVATE | _ANONYMOUS | _NORESERVE, -1, 0)
        mapped = [(base + at, size, self.fds[file], inside) for file, inside, at, size in self._cut(start, length)]
        for address, size, fd, inside in mapped:
            _mmap(address, size, _PROT_READ | _PROT_WRITE, _FIXED | (_PRIVATE if private else _SHARED), fd, inside)
        buffer: Buffer = (ctypes.c_char * nbytes).from_address(base + offset - start)
        holes = [(fd, inside, size) for _, size, fd, inside in mapped] if give_back else []
        buffer.keeper = self  # the files must stay open: at a fork they are mapped again
        # Not at exit: other finalizers may still read the bytes, and the system frees them anyway.
        weakref.finalize(buffer, _unmap, base, length, holes, self).atexit = False
        if not private:
            _keep_from_forks(buffer, mapped)
        return buffer

    def save(self, path: Path) -> None:
        """Write the bytes to a file."""
        with path.open("wb") as file:
            for fd in self.fds:
                at, end = 0, os.fstat(fd).st_size
                while at < end:
                    at += os.sendfile(file.fileno(), fd, at, end - at)
            file.flush()
            os.fsync(file.fileno())

    def _cut(self, offset: int, nbytes: int) -> Iterable[tuple[int, int, int, int]]:
        """Cut a run at the files' borders: (which file, offset in it, offset in the run, bytes)."""
        start = 0
        for file, end in enumerate(self._ends):
            low, high = max(offset, start), min(offset + nbytes, end)
            if low < high:
                yield file, low - start, low - offset, high - low
            start = end


_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.pwrite.restype = ctypes.c_ssize_t
_libc.pwrite.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_long]
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
_libc.memcmp.argtypes = _libc.memmove.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


def copy_differences(target: int, source: int, nbytes: int) -> int:
    """Make the bytes at `target` equal to those at `source`, writing only where they differ; how many were written.

    Comparing first costs little, since the bytes are in the cache when they are copied, and memory that nobody changed
    may be read-only or shared with a file.
    """

    def copy(start: int) -> int:
        written = 0
        for at in range(start, min(start + _STEP, nbytes), MiB):
            size = min(MiB, nbytes - at)
            if _libc.memcmp(target + at, source + at, size):
                _libc.memmove(target + at, source + at, size)
                written += size
        return written

    if nbytes <= _STEP:
        return copy(0)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        return sum(pool.map(copy, range(0, nbytes, _STEP)))


def _write_all(fd: int, pieces: list[Piece]) -> None:
    for piece in pieces:
        done = 0
        while done < piece.nbytes:
            size = min(_STEP, piece.nbytes - done)
            wrote = _libc.pwrite(fd, piece.address + done, size, piece.offset + done)
            if wrote < 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            done += wrote


def _mmap(address: int | None, nbytes: int, protection: int, flags: int, fd: int, offset: int) -> int:
    found: int | None = _libc.mmap(address, nbytes, protection, flags, fd, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _unmap(base: int, length: int, holes: list[tuple[int, int, int]], memory: GraphMemory) -> None:
    _libc.munmap(base, length)
    if memory._closed.alive:
        for fd, offset, size in holes:
            _libc.fallocate(fd, _KEEP_SIZE_AND_PUNCH_HOLE, offset, size)


def _close_all(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


_shared: weakref.WeakKeyDictionary[Any, list[tuple[int, int, int, int]]] | None = None
_parted: weakref.WeakSet[Any] = weakref.WeakSet()  # those of them that are this process's own for now
_common: weakref.WeakKeyDictionary[Any, list[tuple[int, int]]] = weakref.WeakKeyDictionary()  # from where to where


def _keep_from_forks(buffer: Buffer, mapped: list[tuple[int, int, int, int]]) -> None:
    """Make it a copy on write when this process is forked (by a DataLoader, say), as ordinary memory is then.

    Otherwise a Dataset that scales its items in place would, from a forked worker, change the kernel's own data; and
    what the cell writes on would change under a process that samples meanwhile. `settle` makes it shared again.
    """
    global _shared
    if _shared is None:
        _shared = weakref.WeakKeyDictionary()
        os.register_at_fork(before=_part)
    _shared[_ById(buffer)] = mapped


def share_with_children(buffer: Buffer, runs: Sequence[tuple[int, int]]) -> None:
    """Leave these runs of a mapped buffer (offset in it, bytes; whole pages) to forked children as they are."""
    if runs:
        base = ctypes.addressof(buffer)
        _common[buffer.stand_in] = [(base + at, base + at + nbytes) for at, nbytes in runs]


def _part() -> None:
    for whose in [one for one in list(_shared or ()) if one not in _parted]:
        for start, nbytes, fd, offset in _runs(whose):
            _mmap(start, nbytes, _PROT_READ | _PROT_WRITE, _PRIVATE | _FIXED, fd, offset)
        _parted.add(whose)


def settle() -> None:
    """Bring what this process has written since it was forked into the files, for whoever reads those."""
    for whose in list(_parted):
        for start, nbytes, fd, offset in _runs(whose):
            _write_all(fd, [Piece(start + at, size, offset + at) for at, size in _own_pages(start, nbytes)])
            _mmap(start, nbytes, _PROT_READ | _PROT_WRITE, _SHARED | _FIXED, fd, offset)
        _parted.discard(whose)


def _runs(whose: Any) -> Iterator[tuple[int, int, int, int]]:
    """Address, bytes, file and offset of what is mapped, less what forked processes have in common."""
    for address, size, fd, offset in (_shared or {}).get(whose, ()):
        for start, end in _without(address, address + size, _common.get(whose, ())):
            yield start, end - start, fd, offset + start - address


def _own_pages(start: int, nbytes: int) -> Iterator[tuple[int, int]]:
    """The runs of a copy on write (offset in it, bytes) that have been written to, and are no longer the file's."""
    try:
        with open("/proc/self/pagemap", "rb") as pagemap:
            pagemap.seek(start // PAGE * 8)
            told = pagemap.read(-(-nbytes // PAGE) * 8)
    except OSError:
        told = b""
    if len(told) < -(-nbytes // PAGE) * 8:  # a system that does not tell: all of it
        yield 0, nbytes
        return
    own = told[7::8].translate(_OWN)  # the highest byte of each page's word
    for run in _RUN.finditer(own):
        yield run.start() * PAGE, min(run.end() * PAGE, nbytes) - run.start() * PAGE


def _without(start: int, end: int, runs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for low, high in sorted(runs):
        if start < min(low, end):
            yield start, min(low, end)
        start = max(start, high)
    if start < end:
        yield start, end


def part_from_parent(memory: GraphMemory) -> None:
    """In a forked child that goes on by itself: bytes of its own, which the parent's changes do not reach.

    The parent has settled, and does so again only afterwards.
    """
    for fd in memory.fds:
        size = os.fstat(fd).st_size
        copy = os.memfd_create("gpufit", os.MFD_CLOEXEC)
        at = 0
        while at < size:
            at += os.sendfile(copy, fd, at, size - at)
        os.dup2(copy, fd, inheritable=False)
        os.close(copy)
    for whose, mapped in list((_shared or {}).items()):
        for address, size, fd, offset in mapped:
            if fd in memory.fds:
                _mmap(address, size, _PROT_READ | _PROT_WRITE, _SHARED | _FIXED, fd, offset)
                _parted.discard(whose)


class _ById:
    """Stands for a buffer in a weak dictionary, which needs something that can be hashed."""

    def __init__(self, buffer: Buffer) -> None:
        buffer.stand_in = self
