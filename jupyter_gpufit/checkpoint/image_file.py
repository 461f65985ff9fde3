"""A file of a checkpoint as it is written: past the page cache, wherever its file system lets us.

The pages for 1.5 GB can take seconds to get, and getting them pushes out what the training reads. Written past the
cache, the bytes go from the buffer to the disk as they lie, and the final fsync has little left to do.
"""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

from .layout import BLOCK

_NOT_PAST = (errno.EINVAL, errno.EOPNOTSUPP)  # what a file system says that cannot do it: at the opening, or later
_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


class ImageFile:
    """A new file; several threads may write to it, each its own blocks."""

    def __init__(self, path: Path) -> None:
        self.fd = create(path)
        self.past = _open_past(path)  # -1: not on this file system
        self._cached = False  # whether pages were taken for more than the last block

    def reserve(self, nbytes: int) -> None:
        """Take the space on the disk. Not by posix_fallocate: that writes into every block where it cannot be taken."""
        while nbytes and _libc.fallocate(self.fd, 0, 0, nbytes):
            number = ctypes.get_errno()
            if number in (errno.EOPNOTSUPP, errno.ENOSYS):
                return
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number))

    def write(self, data: memoryview, at: int) -> None:
        """Write bytes to where they go. Whole blocks, in memory and in the file, go past the cache."""
        done = self._write_past(data[: len(data) - len(data) % BLOCK], at) if at % BLOCK == 0 else 0
        if done == len(data):
            return
        write_at(self.fd, data[done:], at + done)
        if len(data) - done >= BLOCK:
            self._cached = True
            # The disk begins now and not at the fsync: it works while the rest is summed and copied.
            _libc.sync_file_range(self.fd, at + done, len(data) - done, _START_WRITING)

    def _write_past(self, data: memoryview, at: int) -> int:
        """How many of these bytes, in whole blocks, were written past the cache."""
        done = 0
        while self.past >= 0 and done < len(data) and done % BLOCK == 0:
            try:
                done += os.pwrite(self.past, data[done:], at + done)
            except OSError as error:
                if error.errno not in _NOT_PAST:
                    raise
                break
        return done - done % BLOCK  # a disk that is full ends in the middle of one: the plain write says so

    def sync(self) -> os.stat_result:
        """Wait until the disk has it; the file as it is then."""
        os.fsync(self.fd)
        return os.fstat(self.fd)

    def forget(self) -> None:
        """Give back the pages it took: nobody will read it soon, and the training's data may be read."""
        if self._cached:
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        for fd in (self.fd, self.past):
            if fd >= 0:
                os.close(fd)


def create(path: Path) -> int:
    """Open a file that was not there, for its owner only."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def write_at(fd: int, data: memoryview, at: int) -> None:
    """Write all of it, through the page cache."""
    while data:
        wrote = os.pwrite(fd, data, at)
        data, at = data[wrote:], at + wrote


def _open_past(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_DIRECT | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _NOT_PAST:
            raise
        return -1
