"""The locks on a file of the lab: what its writer takes on it, and what anybody can see of that.

A writer takes two. The *write lock* (of an open file description, over the whole file) decides: only who may write to
the file can have it, which is its owner, so nobody can keep it in a dead owner's place; it goes with the last
descriptor, whatever its processes die of; it is seen from every pid namespace, and also of a file that cannot be
opened. The *flock* says who: the kernel names the process that took it. Anybody who may read the file can take one, so
it decides only for files of a version that had nothing else.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Literal

Lock = Literal["write", "flock", "none"]
Inode = tuple[int, int]  # device, inode

_FLOCK_T = "hhqqi0q"  # struct flock: type, whence, start, length (0: all), pid, padding
_LOOKS = 3  # at the kernel's list before what it lacks is believed to be unlocked


def lock_for_life(fd: int) -> bool:
    """Take both locks on a file that nobody else sees yet; False where this system has no write locks of that kind."""
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _range(fcntl.F_WRLCK))
    except OSError:
        return False
    return True


def unlock(fd: int) -> None:
    """Give both back, for everybody who shares this open file."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    with suppress(OSError):  # a system without write locks
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _range(fcntl.F_UNLCK))


def lock_on(fd: int) -> Lock:
    """Which lock somebody holds on this file. Asked without taking the one that counts, so that nobody is disturbed."""
    try:
        # Would a read lock be in anybody's way? Read locks of others are not, and only its owner has a write lock.
        answer = fcntl.fcntl(fd, fcntl.F_OFD_GETLK, _range(fcntl.F_RDLCK))
        if struct.unpack(_FLOCK_T, answer)[0] == fcntl.F_WRLCK:
            return "write"
    except OSError:
        pass  # a system without them
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return "flock"
    fcntl.flock(fd, fcntl.LOCK_UN)
    return "none"


def _range(kind: int) -> bytes:
    return struct.pack(_FLOCK_T, kind, os.SEEK_SET, 0, 0, 0)


class LockList:
    """The kernel's list of locks, read when it is first asked for: to print it, the kernel stops all locking.

    It is for one look at files that were listed before: each was locked before it had a name.
    """

    @cached_property
    def _text(self) -> str:
        return _read()

    @cached_property
    def flocks(self) -> dict[Inode, list[int]]:
        """Who took a flock: pids by inode. Those of other pid namespaces are missing."""
        return parse_flocks(self._text)

    def write_locked(self, inode: Inode) -> bool:
        """Has somebody a write lock?"""
        return inode in self._write_locked or inode in self._write_locked_again

    @cached_property
    def _write_locked(self) -> set[Inode]:
        return parse_write_locks(self._text)

    @cached_property
    def _write_locked_again(self) -> set[Inode]:
        """What changes while a long list is read may be missing: so it is read again, once for all files of a look."""
        return set().union(*(parse_write_locks(_read()) for _ in range(_LOOKS - 1)))


class KeptOpen:
    """A file whose lock can be asked for when it has no name any more: of itself, where it could be opened.

    To print the kernel's list stops all locking of the machine, and who prints it may lose the processor meanwhile: not
    at each end of a claim, by everybody who waits.
    """

    def __init__(self, path: str, found: os.stat_result, *, may_open: bool) -> None:
        self.inode: Inode = found.st_dev, found.st_ino
        self._fd = -1
        if may_open:
            with suppress(OSError):
                self._fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)

    def write_locked(self, locks: LockList) -> bool:
        if self._fd < 0:
            return locks.write_locked(self.inode)
        found = os.fstat(self._fd)
        if (found.st_dev, found.st_ino) != self.inode:  # the name had gone to another file by then
            return locks.write_locked(self.inode)
        return lock_on(self._fd) == "write"

    def __del__(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)


def flock_holders() -> dict[Inode, list[int]]:
    """Who took a flock: pids by inode."""
    return parse_flocks(_read())


def write_locks() -> set[Inode]:
    """What somebody has a write lock on."""
    return parse_write_locks(_read())


def _read() -> str:
    return Path("/proc/locks").read_text()


def parse_flocks(text: str) -> dict[Inode, list[int]]:
    """Read lines such as "1: FLOCK  ADVISORY  WRITE 29749 00:1b:18434 0 EOF"; a waiter has "->" as second word."""
    held: dict[Inode, list[int]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 6 and words[1] == "FLOCK":
            held.setdefault(_inode(words[5]), []).append(int(words[4]))
    return held


def parse_write_locks(text: str) -> set[Inode]:
    """Read lines such as "2: OFDLCK ADVISORY  WRITE -1 00:1b:18434 0 EOF"."""
    found = (line.split() for line in text.splitlines() if " OFDLCK " in line)
    return {_inode(words[5]) for words in found if len(words) >= 6 and words[1] == "OFDLCK" and words[3] == "WRITE"}


def _inode(text: str) -> Inode:
    major, minor, inode = text.split(":")
    return os.makedev(int(major, 16), int(minor, 16)), int(inode)
