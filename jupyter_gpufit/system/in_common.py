"""What a process and those that it forks would have in common, or what a forked one would miss.

A thread is not there after a fork, and what it was to do is not done. An open file, a socket, a piece of shared memory
(the locks of `multiprocessing` are such) and a child are the same one for all who were forked.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SELF = Path("/proc/self")
_KNOW_FORKS = frozenset(["jemalloc_bg_thd"])  # pyarrow's, so pandas': jemalloc holds its locks over a fork, and goes on


@dataclass(frozen=True)
class InCommon:
    """Of this process, at one moment."""

    threads: frozenset[str]  # Python's, by name
    tasks: int  # threads of any kind that are there after a fork, too: a library of linear algebra ends its own
    files: frozenset[tuple[int, str]]  # but those that can only be read
    memory: frozenset[str]
    children: frozenset[str]

    def is_more_than(self, before: InCommon) -> bool:
        return bool(
            self.tasks > before.tasks
            or self.threads - before.threads
            or self.files - before.files
            or self.memory - before.memory
            or self.children - before.children
        )


def in_common(before: InCommon | None = None) -> InCommon:
    """`before`: where there are no more threads than then, none have come."""
    tasks = _tasks()
    if before is None or tasks > before.tasks:
        _fork_and_end()
        tasks = _tasks()
    threads = frozenset(thread.name for thread in threading.enumerate())
    return InCommon(threads, tasks, frozenset(_files()), frozenset(_memory()), frozenset(_children()))


def _tasks() -> int:
    found = 0
    for name in os.listdir(_SELF / "task"):
        with suppress(OSError):  # it has ended
            found += (_SELF / "task" / name / "comm").read_text().strip() not in _KNOW_FORKS
    return found


def _fork_and_end() -> None:
    """Libraries that know how to be forked end their threads before it, and begin them again when they need them."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _files() -> set[tuple[int, str]]:
    found = set()
    for name in os.listdir(_SELF / "fd"):
        with suppress(OSError, ValueError):  # the folder's own, which is closed by now
            number, what = int(name), os.readlink(_SELF / "fd" / name)
            if not (_only_read(number) and stat.S_ISREG(os.stat(number).st_mode)):
                found.add((number, what))
    return found


def _only_read(number: int) -> bool:
    flags = next(line for line in (_SELF / "fdinfo" / str(number)).read_text().splitlines() if "flags" in line)
    return int(flags.split()[1], 8) & os.O_ACCMODE == os.O_RDONLY


def _memory() -> set[str]:
    """Mapped by more than one, and written to; by the inode of the file behind it, which may have no name."""
    lines = [line.split(None, 5) for line in (_SELF / "maps").read_text().splitlines()]
    return {" ".join(line[3:]) for line in lines if line[1].endswith("s") and "w" in line[1]}


def _children() -> set[str]:
    """Of this thread, which is the one that imports."""
    return {*(_SELF / "task" / str(threading.get_native_id()) / "children").read_text().split()}
