"""Memory that two processes see: whoever calls writes inputs into it, and the model its answers.

It can grow and never shrink (the kernel sees to that): a process that has mapped it cannot be killed by the other
one's cutting it short.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from math import prod
from typing import Any

import numpy as np

from .protocol import Lying

F_SEAL_FUTURE_WRITE = 0x10  # of linux/fcntl.h


class SharedRegion:
    """One such memory, as one process sees it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._map: mmap.mmap | None = None  # not before it is used: it may be anybody's, and then that call fails

    @classmethod
    def make(cls, size: int) -> SharedRegion:
        fd = os.memfd_create("gpufit-call", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, max(size, mmap.PAGESIZE))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
            made = cls(fd)
            made.ensure(size)
            return made
        except BaseException:
            os.close(fd)
            raise

    @property
    def size(self) -> int:
        return 0 if self._map is None else len(self._map)

    def ensure(self, size: int) -> None:
        """Have at least so many bytes; the other process finds them when it needs them."""
        size = max(size, 1)  # an empty file cannot be mapped
        if size > os.fstat(self.fd).st_size:
            os.ftruncate(self.fd, size)
        if size > self.size:
            # A new map beside the old one, which lives as long as an array in it.
            self._map = mmap.mmap(self.fd, os.fstat(self.fd).st_size)

    def array(self, lying: Lying) -> np.ndarray[Any, Any]:
        """The tensor that lies there, without a copy."""
        count, dtype = prod(lying.shape), np.dtype(lying.dtype)
        self.ensure(lying.at + count * dtype.itemsize)
        assert self._map is not None
        return np.frombuffer(self._map, dtype, count, lying.at).reshape(lying.shape)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def can_shrink(fd: int) -> bool:
    """Whether somebody could cut it short while we have it mapped."""
    try:
        return not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    except OSError:
        return True


def may_be_written(fd: int) -> bool:
    """Whether answers can be written into it, as far as it has not been sealed since."""
    if fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDWR:
        return False
    return not fcntl.fcntl(fd, fcntl.F_GET_SEALS) & (fcntl.F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)
