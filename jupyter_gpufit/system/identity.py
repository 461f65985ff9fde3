"""Which process, beyond doubt: a pid alone may belong to a stranger by now."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from functools import cache
from pathlib import Path


def kernel_text(path: str | Path) -> str:
    """What a file of /proc says. Names in it are bytes as their owners chose them: a process's, a mount's, a file's.

    Lines end at a newline only, which the kernel escapes in names: for those of `splitlines`, a name could hold a line.
    """
    with open(path, "rb", buffering=0) as file:
        return file.readall().decode(errors="surrogateescape")


@cache
def boot_id() -> str:
    """Differs after every boot, so that a pid and start time from before it never match."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time_of(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None where there is none (a zombie has ended).

    One that we may not look into (hidepid) is somebody else's: whatever we started under its number has ended.
    """
    try:
        stat = kernel_text(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    # The name in parentheses may hold spaces and parentheses itself: count fields after the last one.
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class ProcessId:
    """A process of this boot."""

    pid: int
    start_time: int  # clock ticks since boot
    boot: str

    @classmethod
    def of(cls, pid: int) -> ProcessId | None:
        started = start_time_of(pid)
        return None if started is None else cls(pid, started, boot_id())

    def alive(self) -> bool:
        return self.boot == boot_id() and start_time_of(self.pid) == self.start_time

    def open(self) -> int | None:
        """A pidfd that becomes readable at its end, or None when it has ended; the caller closes it."""
        try:
            fd = os.pidfd_open(self.pid)
        except (ProcessLookupError, FileNotFoundError):  # the latter for one that ends just now
            return None
        if self.alive():  # asked after opening: the fd cannot come to mean another process
            return fd
        os.close(fd)
        return None

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to exactly this process; False when it has ended."""
        fd = self.open()
        if fd is None:
            return False
        try:
            signal.pidfd_send_signal(fd, number)
            return True
        except ProcessLookupError:
            return False
        finally:
            os.close(fd)
