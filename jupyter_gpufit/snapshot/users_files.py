"""The user's own files: as a training left them, and as they are when it goes on.

A checkpoint holds no copy of a log or of a data set that the training had open, and in the meantime others may write to
them: an editor, another run. What they wrote is neither overwritten nor cut off. Not covered: somebody who changes a
file and gives it the time that it had, or who writes to it while the training runs.
"""

from __future__ import annotations

import mmap
import os
import re
import shutil
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from ..checkpoint.checksum import checksum
from ..errors import CannotArrive, WouldOverwrite
from ..units import MiB

LATE = 3.0  # seconds by which a job's last sign of life may come before its death
COARSE = 2.0  # seconds: the coarsest time of a change that a file system keeps
_END = 4096  # bytes


@dataclass(frozen=True)
class Look:
    """What a file was at a moment."""

    inode: int  # without the device, whose number another boot may change
    nbytes: int
    changed: int  # nanoseconds since 1970

    @classmethod
    def at(cls, path: str) -> Look:
        found = os.stat(path)
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Written(Look):
    """A file that was open for writing."""

    end: str  # checksum of its last bytes
    read: bool  # for reading, too

    @classmethod
    def of(cls, path: str, read: bool) -> Written:
        look = Look.at(path)
        return cls(**vars(look), end=_end_of(path, look.nbytes), read=read)


def _end_of(path: str, nbytes: int) -> str:
    """The checksum of the last of its first `nbytes`; empty where it may not be read."""
    start = max(0, nbytes - _END)
    try:
        with open(path, "rb") as file:
            return checksum(os.pread(file.fileno(), nbytes - start, start))
    except PermissionError:
        return ""


# Mapped files --------------------------------------------------------------------------------------------------------


def may_have_changed(path: str, since: float) -> bool:
    """Whether a file that is mapped may have been written to; if its time would not tell, it may."""
    try:
        changed = os.stat(path).st_mtime
    except OSError:
        return True
    return changed >= since - COARSE or not _time_tells(os.path.dirname(path))


@cache
def _time_tells(directory: str) -> bool:
    """Whether a file there has another time once a mapping of it was written to. In tmpfs it has not.

    Tried out with a file that has no name, so that nobody sees it.
    """
    try:
        fd = os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        os.ftruncate(fd, mmap.PAGESIZE)
        with mmap.mmap(fd, mmap.PAGESIZE) as mapped:
            mapped[:1]  # a page that was read first: its first write need not be noticed
            os.utime(fd, (0, 0))
            mapped[:1] = b"x"
            return os.fstat(fd).st_mtime_ns > 0
    except OSError:
        return False
    finally:
        os.close(fd)


# Back ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftFiles:
    """How a training left its files."""

    job: str = "job"  # its name
    alive_until: float = 0.0  # seconds since 1970: when it was last seen; 0: it stood still since its checkpoint

    def wrote(self, then: Look, now: Look) -> bool:
        """Whether it was the last to write to the file."""
        if now.changed == then.changed:
            return True  # also a copy that kept its time
        return now.inode == then.inode and then.changed < now.changed <= (self.alive_until + LATE) * 1e9


class UsersFiles:
    """Brings the files back to what they were at the checkpoint, as far as nobody else has written to them."""

    def __init__(self, left: LeftFiles, remarks: list[str]) -> None:
        self._left, self._remarks = left, remarks
        self._moved: dict[str, str] = {}

    def where(self, path: str) -> str:
        """Where a file is now that was written when the checkpoint was taken."""
        return self._moved.get(path, path)

    def look_again(self, looks: Mapping[str, Look], held: Container[str]) -> None:
        """Say which mapped files are not what they were. `held`: those of which the checkpoint has the bytes."""
        for path, then in looks.items():
            try:
                now = Look.at(path)
            except OSError as error:
                why = f"it was mapped at the checkpoint, and now: {error.strerror}. Put it back, and resume again."
                raise CannotArrive(path, why) from error
            if path not in held and (now.nbytes, now.changed) != (then.nbytes, then.changed):
                self._say(f"{path} was changed after the checkpoint, which has no copy of it: it stays as it is")

    def put_back(self, path: str, offset: int, found: bytearray, then: Look) -> None:
        """What stood in a file that the training writes to through its memory."""
        with open(path, "rb") as file:
            file.seek(offset)
            different = [at for at in range(0, len(found), MiB) if file.read(MiB) != found[at : at + MiB]]
        if not different:
            return
        if not self._left.wrote(then, Look.at(path)):
            raise WouldOverwrite(path, then.changed)
        with open(path, "r+b") as file:
            for at in different:
                file.seek(offset + at)
                file.write(found[at : at + MiB])
        _set_time(path, then)  # or another try would find that somebody has written to it

    def cut_back(self, files: Mapping[str, Written]) -> None:
        """Shorten the files to what they held, so that a training does not write its lines twice."""
        for path, then in files.items():
            try:
                self._cut_back(path, then)
            except OSError as error:
                why = f"it was open at the checkpoint, and now: {error.strerror}. Put it back, and resume again."
                raise CannotArrive(path, why) from error

    def _cut_back(self, path: str, then: Written) -> None:
        found = self._find(path, then)
        if found is None:
            if os.path.lexists(path):
                self._set_aside(path, then)
            elif then.read:
                raise CannotArrive(path, "it was open at the checkpoint, and is gone. Put it back, and resume again.")
            else:
                self._say(f"{path} is gone, and is begun anew")
            return
        if found != path:
            self._moved[path] = found
            self._say(f"{path} has become {found}, and goes on there")
        nbytes = os.stat(found).st_size
        if nbytes < then.nbytes:
            self._say(f"{path} has {nbytes:,} of the {then.nbytes:,} bytes of the checkpoint, and goes on at its end")
        elif nbytes > then.nbytes:
            os.truncate(found, then.nbytes)
            _set_time(found, then)

    def _find(self, path: str, then: Written) -> str | None:
        """The file, under its name or one that it was given since; None if there is none that may be cut."""
        if self._is_ours(path, then):
            return path
        with suppress(FileNotFoundError), os.scandir(os.path.dirname(path)) as entries:
            for entry in entries:
                if entry.inode() == then.inode and entry.path != path and self._is_ours(entry.path, then):
                    return entry.path
        return None

    def _is_ours(self, path: str, then: Written) -> bool:
        try:
            now = Look.at(path)
        except FileNotFoundError:
            return False
        # After a power cut it may be older than it was, and then there is nothing to cut.
        older = now.inode == then.inode and now.changed < then.changed and now.nbytes <= then.nbytes
        return older or self._left.wrote(then, now)

    def _set_aside(self, path: str, then: Written) -> None:
        """Others keep all of a file that they have written to, and the training what was its own, if that is there."""
        aside = _free_name(f"{path}.before-" + re.sub(r"[^\w.-]", "_", self._left.job))
        continues = os.path.getsize(path) >= then.nbytes and then.end == _end_of(path, then.nbytes) != ""
        os.rename(path, aside)
        if continues or then.read:
            shutil.copy(aside, path)
            os.truncate(path, min(then.nbytes, os.path.getsize(path)))
            _set_time(path, then)
        self._say(f"{path} was written to by somebody else since the training had left it; that file is {aside} now")

    def _say(self, remark: str) -> None:
        self._remarks.append(f"{remark}.")


def _free_name(wanted: str) -> str:
    name, number = wanted, 1
    while os.path.lexists(name):
        number += 1
        name = f"{wanted}-{number}"
    return name


def _set_time(path: str, then: Look) -> None:
    with suppress(OSError):  # another user's, which this one may write
        os.utime(path, ns=(os.stat(path).st_atime_ns, then.changed))


# To the disk ---------------------------------------------------------------------------------------------------------
