"""Writing a checkpoint so that it is whole or not there; this runs in the writer's process.

Nothing here counts on a moment: killed anywhere, it leaves a `.tmp` directory, which the next writer removes.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from ..jobs.epoch import name_of, names, order_of, publishing
from ..jobs.paths import JobPaths
from ..system.files import sync, sync_directory
from .checksum import Run, Section, Sums
from .files import Checkpoint, open_checkpoint
from .image_file import ImageFile, create, write_at
from .layout import Image
from .manifest import MANIFEST, Manifest, StoredBlob, StoredFile
from .reading import OWN_FILE, sums_of
from .request import WriterAnswer, WriterRequest, sizes
from .windows import Window, Windows

THREADS = 2  # one waits for the disk while the other sums
_ASIDE = re.compile(r"\.\d{6,}-\d{6,}\.(\d+)\.[0-9a-f]+\.tmp")  # with the pid of who writes


class Outdated(Exception):
    """The job has a later worker."""

    def __init__(self, current: int) -> None:
        self.current = current


class Unlinked(Exception):
    """A file that was to be linked is not there, or is not what was written."""


def remove_leftovers(directory: Path, training: int) -> None:
    """Take away what killed writers left. Only the holder of the job's lock starts a writer: nobody is at work, but
    perhaps the training's own process, which streams.
    """
    with suppress(FileNotFoundError):
        for entry in os.scandir(directory):
            found = _ASIDE.fullmatch(entry.name)
            if found and int(found[1]) != training and entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)


class Publisher:
    """Writes the checkpoints of one worker into one directory."""

    def __init__(self, directory: Path, *, waited_for: bool = False) -> None:
        """`waited_for`: a training stands still meanwhile, so that nothing is written with low priority."""
        self.directory = directory
        self._waited_for = waited_for
        self._lasts = False  # whether the directory itself outlasts a power cut
        self._sound: set[tuple[int, ...]] = set()  # files to be linked that were written or read by this process

    def publish(self, request: WriterRequest, windows: Windows) -> None:
        """Write the request's images as their windows pass by; when this returns, a power cut loses nothing of them."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        aside = _aside(self.directory, request.name)
        aside.mkdir(mode=0o700)
        try:
            manifest = self._write(aside, request, windows)
            _write_small(aside / MANIFEST, manifest.to_json().encode())
            sync_directory(aside)
            sync(request.files)
            if not self._lasts:  # made just now, or by whoever prepared for this
                sync_directory(self.directory.parent)
                self._lasts = True
            with publishing(self.directory):
                _check_epoch(self.directory, request.about.epoch)
                _rename_to_new(aside, self.directory / request.name)
                sync_directory(self.directory)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise

    def _write(self, aside: Path, request: WriterRequest, windows: Windows) -> Manifest:
        files: dict[str, StoredFile] = {}
        blobs = list(request.blobs)
        for file, checkpoint in request.linked.items():
            files[file] = self._link(aside, self.directory / checkpoint, file, request.blobs)
        with ExitStack() as stack:
            opened = [stack.enter_context(closing(ImageFile(aside / image.file))) for image in request.images]
            for image_file, image in zip(opened, request.images, strict=True):
                image_file.reserve(image.nbytes)  # of all before a byte is written: a full disk shows at once
            # Entered last: its threads have ended when the files are closed, also where one of them failed.
            pool = stack.enter_context(_threads(request.about.automatic and not self._waited_for))
            for image_file, image in zip(opened, request.images, strict=True):
                sums = _write_image(pool, image_file, image, image.sections(sizes(blobs)), windows)
                files[image.file] = StoredFile(image.nbytes, image.head, sums.of(0))
                for place, number in enumerate(image.blobs, start=1):
                    blobs[number] = replace(blobs[number], checksum=sums.of(place))
            for image_file in opened:
                self._sound.add(_identity(image_file.sync()))
                if request.about.automatic:
                    image_file.forget()
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


def answer_to(request: WriterRequest, directory: Path, publish: Callable[[], None]) -> WriterAnswer:
    """Publish it, and put how it went into words that cross to another process."""
    try:
        publish()
        return WriterAnswer()
    except Outdated as outdated:
        return WriterAnswer("outdated", current=outdated.current)
    except Unlinked as unlinked:
        return WriterAnswer(str(unlinked), unlinked=True)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        return WriterAnswer(why, error.errno or errno.EIO, str(error.filename or ""), request.needed, _free(directory))
    except Exception as error:  # whatever it is, the training shall hear of it and go on
        return WriterAnswer(f"{type(error).__name__}: {error}")


def _free(directory: Path) -> int:
    try:
        found = os.statvfs(directory if directory.exists() else directory.parent)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def publish_again(directory: Path, name: str, epoch: int) -> Checkpoint:
    """Give an earlier checkpoint a second name, under which it is the newest; its files are linked.

    `epoch`: a new one, of which no worker has published anything. Raises CheckpointBroken when it is not whole.
    """
    new = name_of(epoch, 1)
    with open_checkpoint(directory / name) as opened:
        manifest = replace(opened.manifest, name=new, about=replace(opened.about, epoch=epoch))
        aside = _aside(directory, new)
        aside.mkdir(mode=0o700)
        try:
            for file in manifest.files:
                _link_or_copy(opened.fd(file), directory / name / file, aside / file)
            _write_small(aside / MANIFEST, manifest.to_json().encode())
            sync_directory(aside)
            with publishing(directory):
                _check_epoch(directory, epoch)
                _rename_to_new(aside, directory / new)
                sync_directory(directory)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    return Checkpoint(directory / new, manifest)


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
        current = int(JobPaths(directory.parent).epoch.read_text())
    except FileNotFoundError:
        return  # no job's directory: a benchmark's or a test's
    if current > epoch:
        raise Outdated(current)


def _rename_to_new(aside: Path, target: Path) -> None:
    if os.path.lexists(target):  # rename would replace an empty directory
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(aside, target)


def _write_small(path: Path, data: bytes) -> None:
    fd = create(path)
    try:
        write_at(fd, memoryview(data), 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def _threads(low_priority: bool) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, initializer=_give_way if low_priority else None)


def _write_image(
    pool: ThreadPoolExecutor, file: ImageFile, image: Image, sections: Sequence[Section], windows: Windows
) -> Sums:
    sums = Sums(sections)

    def write(window: Window, run: Run) -> None:
        sums.take(run, window.bytes_of(run))
        file.write(*window.blocks_of(run, image.nbytes))

    for window in windows(image, sections):
        for _ in pool.map(partial(write, window), window.runs):
            pass
    return sums


def _link_or_copy(fd: int, source: Path, target: Path) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        copy = create(target)  # a file system without hard links
        try:
            at, size = 0, os.fstat(fd).st_size
            while at < size:
                at += os.sendfile(copy, fd, at, size - at)
            os.fsync(copy)
        finally:
            os.close(copy)


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _give_way() -> None:
    """On Linux this lowers the calling thread alone, so that the next request may be urgent again."""
    os.setpriority(os.PRIO_PROCESS, 0, 10)
