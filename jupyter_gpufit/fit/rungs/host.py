"""The host's memory that a plan takes, and the way there and back for the bytes of a device.

What is put there lies in shared anonymous memory: a CPU slot counts the process's private memory, so the kernel itself
keeps the slot's bytes apart from the host's. All of what the plan was predicted to take is taken as the cell begins, so
that a second job sees that it is gone, and freed memory is kept for what has the same size.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import time
import weakref
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch

from ...errors import HostIsFull
from ...system.memory import spare_memory

PAGE = os.sysconf("SC_PAGE_SIZE")
_STEP = 64 << 20  # bytes that are taken between two looks at what is left
_VANISHING = 5.0  # seconds
_DONTNEED, _REMOVE = 4, 9  # madvise
_LIBC = ctypes.CDLL(None, use_errno=True)
_AWAY = 0xFF  # what is left of a storage that is not there: not a number, so that nobody reads it unseen


class HostCopy:
    """Bytes of the host that stand for a storage of the device; without memory for one that is fake."""

    def __init__(self, size: int, *, real: bool) -> None:
        self.size = size
        self._read: torch.UntypedStorage | None = None
        if real:
            self.memory = mmap.mmap(-1, size)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
            with torch._C.DisableTorchFunction():
                self.whole = torch.frombuffer(self.memory, dtype=torch.uint8)

    def storage(self, nbytes: int) -> torch.UntypedStorage:
        """The first bytes, as what a checkpoint or `torch.save` can read: one for all who ask."""
        if self._read is None:
            with torch._C.DisableTorchFunction():
                self._read = torch.frombuffer(self.memory, dtype=torch.uint8, count=nbytes).untyped_storage()
            vars(self._read).clear()  # a slot makes a note of its own
        return self._read

    def spent(self) -> None:
        """What it stood for is no more."""
        self._read = None


class HostMemory:
    """What a plan takes of the host."""

    def __init__(self, reserved: int = 0, spare: Callable[[], int] = spare_memory) -> None:
        self.taken = 0  # bytes, which only grow
        self.reserved = reserved  # bytes that nobody else can have
        self._spare = spare
        self._granted = 0  # bytes that were there at the last look
        self._free: dict[int, list[HostCopy]] = defaultdict(list)
        self._ahead = _Ahead(reserved, spare) if reserved else None

    def take(self, nbytes: int, *, real: bool) -> HostCopy:
        size = -(-nbytes // PAGE) * PAGE
        if self._free[size]:
            return self._free[size].pop()
        if real and (self._ahead is None or not self._ahead.give(size)):
            self._take_unforeseen(size)
        self.taken += size
        return HostCopy(size, real=real)

    def _take_unforeseen(self, size: int) -> None:
        """More than was predicted; to look what the host has takes longer than a small copy."""
        if size > self._granted:
            spare = self._spare()
            if size > spare:
                raise HostIsFull(size, spare)
            self._granted = min(spare, size + _STEP)
        self._granted -= size

    def give(self, copy: HostCopy) -> None:
        copy.spent()
        self._free[copy.size].append(copy)


class _Ahead:
    """Memory that nobody else can have meanwhile."""

    def __init__(self, reserved: int, spare: Callable[[], int]) -> None:
        self.left = -(-reserved // PAGE) * PAGE
        if self.left > (free := _when_there(self.left, spare)):
            raise HostIsFull(self.left, free)
        self._memory = mmap.mmap(-1, self.left)
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        for begin in range(0, self.left, _STEP):
            step = min(_STEP, self.left - begin)
            if step > (free := spare()):  # another job takes its own in this very moment
                raise HostIsFull(reserved - begin, free)
            ctypes.memset(self._address + begin, 0, step)

    def give(self, size: int) -> bool:
        if size > self.left:
            return False
        self.left -= size
        _LIBC.madvise(ctypes.c_void_p(self._address + self.left), ctypes.c_size_t(size), _REMOVE)
        return True


def _when_there(wanted: int, spare: Callable[[], int]) -> int:
    """What is to spare; a job that has given back its claim may have its memory for a moment longer."""
    ends = time.monotonic() + _VANISHING
    while (free := spare()) < wanted and time.monotonic() < ends:
        time.sleep(_VANISHING / 20)
    return free


def is_fake(storage: torch.UntypedStorage) -> bool:
    """Of a trial run: it has no bytes."""
    return storage.device.type == "meta"


def drop(storage: torch.UntypedStorage, nbytes: int) -> None:
    """The device's memory for it goes back: the host has its bytes."""
    if is_fake(storage):
        return
    if storage.device.type != "cpu":
        storage.resize_(0)
        return
    address = storage.data_ptr()
    begin, end = -(-address // PAGE) * PAGE, (address + nbytes) // PAGE * PAGE
    if begin >= end:
        ctypes.memset(address, _AWAY, nbytes)
        return
    ctypes.memset(address, _AWAY, begin - address)
    ctypes.memset(end, _AWAY, address + nbytes - end)
    _LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)


def save(storage: torch.UntypedStorage, copy: HostCopy, nbytes: int, *, beside: bool = False) -> None:
    """The host has its bytes, too; on a GPU, `beside` what is computed, only when the stream says so."""
    if is_fake(storage):
        return
    if storage.device.type != "cpu":
        copy.whole[:nbytes].copy_(_on(storage), non_blocking=beside)
    else:
        ctypes.memmove(copy.address, storage.data_ptr(), nbytes)


def room_for(storage: torch.UntypedStorage, nbytes: int) -> None:
    """It has memory on the device again, with anything in it."""
    if not is_fake(storage) and storage.device.type != "cpu":
        storage.resize_(nbytes)


def fetch(storage: torch.UntypedStorage, copy: HostCopy, nbytes: int) -> None:
    """Its bytes are on the device again."""
    if is_fake(storage):
        return
    if storage.device.type != "cpu":
        _on(storage).copy_(copy.whole[:nbytes], non_blocking=True)
    else:
        ctypes.memmove(storage.data_ptr(), copy.address, nbytes)


def _on(storage: torch.UntypedStorage) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)


def watch(storage: torch.UntypedStorage, gone: Callable[[Any], None]) -> weakref.ref[Any]:
    """Until its memory is freed, whoever has it."""
    return weakref.ref(storage, gone)
