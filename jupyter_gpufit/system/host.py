"""What the machine's own memory and processors do: a training that waits for its data is seen here, not on its GPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Host:
    """The machine beside its devices, at one moment."""

    total: int  # bytes of memory
    free: int  # bytes that programs can still have
    busy: float  # percent of the time in which all its processors computed, since the look before
    processors: int


def read_host() -> Host:
    """The first look says nothing of how busy it is."""
    import psutil  # here: the command line starts faster without

    memory = psutil.virtual_memory()
    busy = round(psutil.cpu_percent(), 1)
    return Host(total=memory.total, free=memory.available, busy=busy, processors=psutil.cpu_count() or 1)
