"""Memory that a forked process still shares with its parent (tensors in shared memory, memory-mapped files) made its
own, so that what a traced cell writes there stays here."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator

_PRIVATE, _ANONYMOUS, _NO_RESERVE = 0x02, 0x20, 0x4000
_MAY_MOVE_TO_A_FIXED_PLACE = 1 | 2
_NOT_MEMORY = ("/dev/", "anon_inode:", "/sys/", "[")  # a device's registers, an event queue's rings
_MEMORY_AFTER_ALL = ("/dev/shm/", "/dev/zero")  # named, and from before a fork

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = _libc.mremap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]


def unshare() -> None:
    """Replace every writable shared mapping of this process by a copy."""
    for start, length in list(_shared()):
        flags = _PRIVATE | _ANONYMOUS | _NO_RESERVE
        copy = _libc.mmap(None, length, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        ctypes.memmove(copy, start, length)
        _libc.mremap(copy, length, length, _MAY_MOVE_TO_A_FIXED_PLACE, start)


def _shared() -> Iterator[tuple[int, int]]:
    """Where they start, and their bytes."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            place, permissions, _, _, _, *path = line.split(maxsplit=5)
            name = path[0].strip() if path else ""
            is_memory = name.startswith(_MEMORY_AFTER_ALL) or not name.startswith(_NOT_MEMORY)
            if permissions.startswith("rw") and permissions.endswith("s") and is_memory:
                start, end = (int(address, 16) for address in place.split("-"))
                yield start, end - start
