"""Memory as a caller of a deployed model might bring it."""

from __future__ import annotations

import fcntl
import os

from jupyter_gpufit.calls.region import F_SEAL_FUTURE_WRITE


def sealed_memory(seals: int, size: int = 4096) -> int:
    """Memory that cannot shrink, and whatever else."""
    fd = os.memfd_create("mine", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, size)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | seals)
    return fd


def unwritable_memory() -> list[int]:
    """Of each kind that there is."""
    plain = sealed_memory(0)
    try:
        only_read = os.open(f"/proc/self/fd/{plain}", os.O_RDONLY)
    finally:
        os.close(plain)
    return [sealed_memory(fcntl.F_SEAL_WRITE), sealed_memory(F_SEAL_FUTURE_WRITE), only_read]
