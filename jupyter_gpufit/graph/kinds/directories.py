"""What a look into a directory found: os.scandir(), os.walk() and Path.glob() hold it while they are suspended.

Not covered: a directory that is still being read, whose next entry nobody can know without taking it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..kind import Kind, Pickler, Reduced

_INSTEAD = "a directory that is being read. Go over a list of it instead: `for entry in list(os.scandir(...))`."


def find(cls: type) -> Kind | None:
    if cls is os.DirEntry:
        return Kind(reduce=reduce_entry)
    if (cls.__module__, cls.__name__) == ("posix", "ScandirIterator"):
        return Kind(reduce=reduce_reading)
    return None


@dataclass(frozen=True)
class DirectoryEntry(os.PathLike[Any]):
    """An os.DirEntry: none can be made but by looking into the directory, which may have changed."""

    name: Any
    path: Any
    _inode: int
    _kind: str  # what it was when the directory was read

    def __fspath__(self) -> Any:
        return self.path

    def inode(self) -> int:
        return self._inode

    def is_symlink(self) -> bool:
        return self._kind == "link"

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isdir(self.path) if follow_symlinks and self.is_symlink() else self._kind == "directory"

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return os.path.isfile(self.path) if follow_symlinks and self.is_symlink() else self._kind == "file"

    def is_junction(self) -> bool:
        return False

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)


def reduce_entry(entry: Any, pickler: Pickler) -> Reduced:
    return DirectoryEntry, (entry.name, entry.path, entry.inode(), _kind(entry))


def _kind(entry: os.DirEntry[Any]) -> str:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def reduce_reading(iterator: Any, pickler: Pickler) -> Reduced:
    return pickler.refuse(iterator, _INSTEAD) if _some_directory_is_being_read() else (make_read, ())


def make_read() -> Any:
    made = os.scandir("/")
    made.close()
    return made


def _some_directory_is_being_read() -> bool:
    """An iterator does not show whether it has come to its end; but then it has no directory open."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):  # that of this very look
            if stat.S_ISDIR(os.fstat(fd).st_mode) and not os.get_blocking(fd):  # opened by opendir()
                return True
    return False
