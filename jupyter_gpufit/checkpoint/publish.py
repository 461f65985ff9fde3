"""Writing a checkpoint so that it is whole or not there; this runs in the writer's process.

Nothing here counts on a moment: killed anywhere, it leaves a `.tmp` directory, which the next writer removes.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from .checksum import Run, Section, Sums, runs
from .manifest import MANIFEST, Manifest, StoredBlob, StoredFile, order_of
from .reading import OWN_FILE, names, sums_of
from .request import Request, sizes

THREADS = 2  # one waits for the disk while the other sums
_ASIDE = re.compile(r"\.\d{6,}-\d{6,}\.\d+\.[0-9a-f]+\.tmp")
_START_WRITING = 2  # SYNC_FILE_RANGE_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
_libc.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]


class Outdated(Exception):
    """The job has a later worker."""

    def __init__(self, current: int) -> None:
        self.current = current


class Unlinked(Exception):
    """A file that was to be linked is not there, or is not what was written."""


def remove_leftovers(directory: Path) -> None:
    """Take away what killed writers left. Only the holder of the job's lock starts a writer: nobody is at work."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            if _ASIDE.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


class Publisher:
    """Writes the checkpoints of one worker into one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._sound: set[tuple[int, ...]] = set()  # files to be linked that were written or read by this process

    def publish(self, request: Request, memory: memoryview) -> None:
        """Write the request's images, which lie in `memory`; when this returns, a power cut loses nothing of them."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        aside = _aside(self.directory, request.name)
        aside.mkdir(mode=0o700)
        try:
            manifest = self._write(aside, request, memory)
            _write_small(aside / MANIFEST, manifest.to_json().encode())
            _sync(aside)
            with publishing(self.directory):
                _check_epoch(self.directory, request.about.epoch)
                _rename_to_new(aside, self.directory / request.name)
                _sync(self.directory)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _write(self, aside: Path, request: Request, memory: memoryview) -> Manifest:
        files: dict[str, StoredFile] = {}
        blobs = list(request.blobs)
        for file, checkpoint in request.linked.items():
            files[file] = self._link(aside, self.directory / checkpoint, file, request.blobs)
        with ThreadPoolExecutor(THREADS, initializer=_give_way if request.about.automatic else None) as pool:
            opened = [_create(aside / image.file) for image in request.images]
            try:
                for fd, image in zip(opened, request.images, strict=True):
                    _reserve(fd, image.nbytes)  # of all files before a byte is written: a full disk shows at once
                for fd, image in zip(opened, request.images, strict=True):
                    part = memory[image.start : image.start + image.nbytes]
                    sums = _write_image(pool, fd, part, image.sections(sizes(blobs)))
                    files[image.file] = StoredFile(image.nbytes, image.head, sums.of(0))
                    for place, number in enumerate(image.blobs, start=1):
                        blobs[number] = replace(blobs[number], checksum=sums.of(place))
                for fd in opened:
                    os.fsync(fd)
                    self._sound.add(_identity(os.fstat(fd)))
                    if request.about.automatic:  # nobody will read it soon, and the training's data may
                        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                for fd in opened:
                    os.close(fd)
        return Manifest(request.name, request.about, files, tuple(blobs))

    def _link(self, aside: Path, source: Path, file: str, blobs: Sequence[StoredBlob]) -> StoredFile:
        """Give the file a name in this checkpoint too; read once by this process, if it did not write it."""
        try:
            before = Manifest.from_json((source / MANIFEST).read_bytes()).files[file]
            fd = os.open(source / file, OWN_FILE)
            try:
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid() or found.st_size != before.nbytes:
                    raise Unlinked(f"{source / file} is not as it was written")
                if _identity(found) not in self._sound:
                    mine = [blob for blob in blobs if blob.file == file]
                    if sums_of(fd, before, mine) != [before.checksum, *(blob.checksum for blob in mine)]:
                        raise Unlinked(f"{source / file} is not as it was written")
                    self._sound.add(_identity(found))
                _link_or_copy(fd, source / file, aside / file)
            finally:
                os.close(fd)
        except (FileNotFoundError, KeyError, ValueError) as error:
            raise Unlinked(f"{source / file} is gone ({error})") from error
        return before


@contextmanager
def publishing(directory: Path) -> Iterator[None]:
    """Hold what orders publishing against a change of the job's epoch: both check and act under this lock."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def prune(directory: Path, keep: int) -> None:
    """Remove all but the newest `keep` whole checkpoints. What cannot be removed is left for the next time."""
    found = names(directory)
    whole = [name for name in found if (directory / name / MANIFEST).is_file()]
    for name in found if len(whole) > keep else ():
        if order_of(name) < order_of(whole[keep - 1]):
            aside = _aside(directory, name)
            with suppress(OSError):
                os.rename(directory / name, aside)  # first, so that no reader finds half of it
                shutil.rmtree(aside, ignore_errors=True)


def _aside(directory: Path, name: str) -> Path:
    return directory / f".{name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"


def _check_epoch(directory: Path, epoch: int) -> None:
    try:
        current = int((directory.parent / "epoch").read_text())
    except FileNotFoundError:
        return  # no job's directory: a benchmark's or a test's
    if current > epoch:
        raise Outdated(current)


def _rename_to_new(aside: Path, target: Path) -> None:
    if os.path.lexists(target):  # rename would replace an empty directory
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(aside, target)


def _create(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _write_small(path: Path, data: bytes) -> None:
    fd = _create(path)
    try:
        _write_at(fd, memoryview(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_image(pool: ThreadPoolExecutor, fd: int, data: memoryview, sections: Sequence[Section]) -> Sums:
    sums = Sums(sections)

    def write(run: Run) -> None:
        part = data[run.start : run.end]
        sums.take(run, part)
        _write_at(fd, part, run.start)
        # The disk begins now and not at the fsync: it works while the rest is summed and copied.
        _libc.sync_file_range(fd, run.start, len(part), _START_WRITING)

    for _ in pool.map(write, runs(sections)):
        pass
    return sums


def _write_at(fd: int, data: memoryview, at: int) -> None:
    while data:
        wrote = os.pwrite(fd, data, at)
        data, at = data[wrote:], at + wrote


def _reserve(fd: int, nbytes: int) -> None:
    # Not posix_fallocate: where a file system cannot reserve, it would write into every block instead.
    while nbytes and _libc.fallocate(fd, 0, 0, nbytes):
        number = ctypes.get_errno()
        if number in (errno.EOPNOTSUPP, errno.ENOSYS):
            return
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def _link_or_copy(fd: int, source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        copy = _create(target)  # a file system without hard links
        try:
            at, size = 0, os.fstat(fd).st_size
            while at < size:
                at += os.sendfile(copy, fd, at, size - at)
            os.fsync(copy)
        finally:
            os.close(copy)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _give_way() -> None:
    """On Linux this lowers the calling thread alone, so that the next request may be urgent again."""
    os.setpriority(os.PRIO_PROCESS, 0, 10)
