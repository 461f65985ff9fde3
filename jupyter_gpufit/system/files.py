"""Small files that are whole or not there, and names that survive a power cut."""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def for_its_owner(path: str, flags: int) -> int:
    """An `opener`: whoever else may come into the directory one day, the file is its user's.

    Where something else has the file's name, it is refused: to open a fifo would wait for somebody, perhaps for ever.
    """
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is not a file", path)
    return fd


def read_small(path: Path) -> str:
    """What stands in a small file of ours."""
    with open(path, "rb", buffering=0, opener=for_its_owner) as file:  # one read, and no decoder to be made for it
        return file.readall().decode()


def nameless() -> IO[bytes]:
    """A file in memory, for what a process says before anybody hears it: no disk has to have room for it."""
    return open(os.memfd_create("gpufit"), "w+b")


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file, which is made for it: no two processes or threads of ours do at once.

    It is open for writing: over NFS only such a lock keeps two hosts apart. It stays there: by unlinking a file that
    is locked two would come to lock two inodes of one name.
    """
    fd = for_its_owner(str(path), os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def write_whole(path: Path, text: str) -> None:
    """Replace a small file in one step, so that a reader sees the old text or the new one; for its owner only."""
    with _replacing(path) as aside:
        with open(aside, "x", opener=for_its_owner) as file:
            file.write(text)


def write_durably(path: Path, text: str) -> None:
    """The same for what no power cut may take back, readable by its owner only."""
    with _replacing(path) as aside:
        with open(aside, "x", opener=for_its_owner) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    sync_directory(path.parent)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield aside
        os.replace(aside, path)
    except OSError:
        with suppress(OSError):  # the first refusal tells more
            aside.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Wait until the names in it are on the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync(paths: Iterable[str]) -> None:
    """Wait until what was written to them is on the disk; of those that are gone or broken, nothing is said.

    The checkpoint is whole without them, and a resume copes with files that are not.
    """
    for place in [*paths, *sorted({os.path.dirname(path) for path in paths})]:
        with suppress(OSError):
            fd = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
