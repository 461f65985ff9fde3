"""What a trace read beside its variables: while none of that changes, another one would see the same.

Not noticed: whether a file is there, where it is only asked for, and what compiled code opens by itself.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ...system.packages import file_of

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PROGRAMS = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.")
_ELSEWHERE = ("socket.connect", "socket.sendto", *_PROGRAMS)
_NOT_FILES = ("/proc/", "/sys/", "/dev/")
_ALWAYS_ALIKE = ("/dev/null", "/dev/urandom", "/proc/self/", "/proc/cpuinfo", "/sys/devices/system/cpu/")


class Reads:
    """From `begin` on, in this process."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = f"{scratch}{os.sep}"
        self._paths: set[str] = set()
        self._knows_all = True
        self.started = False  # another program

    def begin(self) -> None:
        sys.addaudithook(self._hear)

    def seen(self) -> list[tuple[str, int, int]] | None:
        """All of it; None where something came from elsewhere than files."""
        return sorted(map(look_at, self._paths | set(_own_modules()))) if self._knows_all else None

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if not (isinstance(flags, int) and flags & _WRITES):
                self._note(path)
        elif event in ("os.listdir", "os.scandir", "sqlite3.connect"):
            self._note("." if arguments[0] is None else arguments[0])
        elif event.startswith(_ELSEWHERE):
            self._knows_all = False
            self.started |= event.startswith(_PROGRAMS)

    def _note(self, path: Any) -> None:
        if isinstance(path, int):
            return
        try:
            path = os.path.abspath(os.fsdecode(path))
        except (TypeError, OSError):  # an error here would be the cell's
            self._knows_all = False
            return
        if path.startswith(_NOT_FILES):
            self._knows_all &= path.startswith(_ALWAYS_ALIKE)
        elif not path.startswith(self._scratch):
            self._paths.add(path)


def look_at(path: str) -> tuple[str, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return path, 0, -1
    return path, found.st_mtime_ns, found.st_size


def installed() -> Iterable[str]:
    """The directories of installed packages: each is changed by whatever is installed or removed there."""
    return sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *_sites()})


def _sites() -> Iterator[str]:
    yield from site.getsitepackages()
    yield site.getusersitepackages()


def _own_modules() -> Iterator[str]:
    """The files of modules that nobody installed."""
    others = tuple(f"{place}{os.sep}" for place in (*installed(), sysconfig.get_path("stdlib")))
    for module in list(sys.modules.values()):
        path = file_of(module)
        if path and not path.startswith(others):
            yield os.path.abspath(path)
