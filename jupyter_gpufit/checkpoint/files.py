"""Which checkpoints a job has, and opening one: nothing is handed out, let alone unpickled, before all is checked.

A checkpoint is a pickle, and whoever can write it can run code here. So its directory, and every one above it, must
belong to this user and be writable by nobody else; checksums then find what disks, crashes and mistakes did.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType

from ..errors import CheckpointBroken, NotYours
from ..jobs.epoch import names
from ..system.trust import check_trusted
from ..units import GiB
from .manifest import GRAPH, MANIFEST, About, Malformed, Manifest
from .reading import OWN_FILE, read_all, read_at, sums_of

_LARGEST_MANIFEST = GiB // 2  # bytes


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that is durable."""

    path: Path
    manifest: Manifest
    written: int = 0  # bytes written for it; the rest of its files was there already
    seconds: float = 0.0  # from the begin of the pause until it was durable

    @property
    def about(self) -> About:
        return self.manifest.about

    @property
    def nbytes(self) -> int:
        return self.manifest.nbytes


class OpenedCheckpoint:
    """A checkpoint whose every byte was checked. It stays readable, also when it is pruned, until it is closed."""

    def __init__(self, path: Path, manifest: Manifest, fds: dict[str, int]) -> None:
        self.path = path
        self.manifest = manifest
        self._fds = fds

    @cached_property
    def graph(self) -> bytes:
        """The pickle."""
        data = bytearray(self.manifest.files[GRAPH].nbytes)
        self._fill([(self._fds[GRAPH], memoryview(data), 0)])
        return bytes(data)

    @property
    def about(self) -> About:
        return self.manifest.about

    def fd(self, file: str) -> int:
        """Of a file of its, to be read until it is closed."""
        return self._fds[file]

    def read(self, number: int, into: memoryview) -> None:
        """Copy a blob's bytes to where they go."""
        self.read_many([(number, into)])

    def read_many(self, wanted: Iterable[tuple[int, memoryview]]) -> None:
        """The same for several at once, which is faster where they are small."""
        places = []
        for number, into in wanted:
            blob, view = self.manifest.blobs[number], memoryview(into).cast("B")
            assert len(view) == blob.nbytes
            places.append((self._fds[blob.file], view, blob.at))
        self._fill(places)

    def close(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds = {}

    def __enter__(self) -> OpenedCheckpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fill(self, places: list[tuple[int, memoryview, int]]) -> None:
        try:
            read_all(places)
        except EOFError:
            raise CheckpointBroken(str(self.path), "it was cut short while it was read.") from None
        except OSError as error:
            raise CheckpointBroken(str(self.path), f"it cannot be read ({error.strerror}).") from error


@dataclass(frozen=True)
class FoundCheckpoint:
    """The newest checkpoint that holds, and the newer ones that do not."""

    opened: OpenedCheckpoint | None
    skipped: tuple[CheckpointBroken | NotYours, ...] = ()

    @property
    def remarks(self) -> list[str]:
        """What was passed over, and why."""
        return [str(error) for error in self.skipped]


def newest(directory: Path) -> FoundCheckpoint:
    """Open the newest checkpoint that holds. Raises NotYours when others could have written into the directory."""
    skipped: list[CheckpointBroken | NotYours] = []
    try:
        check_trusted(directory)
        found = names(directory)
    except FileNotFoundError:
        return FoundCheckpoint(None)
    for name in found:
        try:
            return FoundCheckpoint(open_checkpoint(directory / name), tuple(skipped))
        except (CheckpointBroken, NotYours) as error:
            skipped.append(error)
    return FoundCheckpoint(None, tuple(skipped))


def open_checkpoint(path: Path) -> OpenedCheckpoint:
    """Check a checkpoint from end to end and open it. Raises NotYours or CheckpointBroken, with the reason."""
    return _open(path, verified=True)


def open_listed(path: Path) -> Checkpoint:
    """What a checkpoint says of itself: its manifest is checked, and that its files are there in the right sizes."""
    opened = _open(path, verified=False)
    opened.close()
    return Checkpoint(path, opened.manifest)


def listed(directory: Path) -> tuple[list[Checkpoint], list[CheckpointBroken | NotYours]]:
    """The checkpoints of a job, newest first, without reading their tensors; and those that are none."""
    good: list[Checkpoint] = []
    bad: list[CheckpointBroken | NotYours] = []
    with suppress(FileNotFoundError):
        check_trusted(directory)
        for name in names(directory):
            try:
                good.append(open_listed(directory / name))
            except (CheckpointBroken, NotYours) as error:
                bad.append(error)
    return good, bad


def newest_listed(directory: Path) -> Manifest | None:
    """Of the newest checkpoint that looks whole."""
    try:
        good, _ = listed(directory)
    except (OSError, NotYours):
        return None
    return good[0].manifest if good else None


def _open(path: Path, *, verified: bool) -> OpenedCheckpoint:
    fds: dict[str, int] = {}
    try:
        check_trusted(path)
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            manifest = _manifest_in(path, directory)
            for name, file in manifest.files.items():
                fds[name] = _own_file(path, directory, name)
                if (size := os.fstat(fds[name]).st_size) != file.nbytes:
                    raise CheckpointBroken(str(path), f"{name} has {size} bytes, and {file.nbytes} were written.")
        finally:
            os.close(directory)
        opened = OpenedCheckpoint(path, manifest, fds)
        if verified:
            _verify(opened, fds)
        return opened
    except BaseException as error:
        for fd in fds.values():
            os.close(fd)
        if isinstance(error, OSError):
            place = Path(error.filename).name if isinstance(error.filename, str) else path.name
            raise CheckpointBroken(str(path), f"{place} cannot be read ({error.strerror}).") from error
        raise


def _manifest_in(path: Path, directory: int) -> Manifest:
    fd = _own_file(path, directory, MANIFEST)
    try:
        data = bytearray(min(os.fstat(fd).st_size, _LARGEST_MANIFEST))
        read_at(fd, memoryview(data), 0)
        manifest = Manifest.from_json(bytes(data))
    except (Malformed, EOFError) as error:
        raise CheckpointBroken(str(path), str(error) or "its manifest is cut short.") from error
    finally:
        os.close(fd)
    if manifest.name != path.name:
        raise CheckpointBroken(str(path), f"it was written as {manifest.name}.")
    return manifest


def _own_file(path: Path, directory: int, name: str) -> int:
    """Open a file of the checkpoint, which must be a plain one of this user's own."""
    try:
        fd = os.open(name, OWN_FILE, dir_fd=directory)
    except FileNotFoundError:
        raise CheckpointBroken(str(path), f"{name} is missing.") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise CheckpointBroken(str(path), f"{name} is a link, and checkpoints have none.") from None
        raise
    found = os.fstat(fd)
    try:
        if not stat.S_ISREG(found.st_mode):
            raise CheckpointBroken(str(path), f"{name} is not a plain file.")
        if found.st_uid not in (os.getuid(), 0):
            raise NotYours(str(path), f"{name} belongs to uid {found.st_uid}")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotYours(str(path), f"{name} can be written by others")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _verify(opened: OpenedCheckpoint, fds: dict[str, int]) -> None:
    for name, file in opened.manifest.files.items():
        blobs = [blob for blob in opened.manifest.blobs if blob.file == name]
        try:
            head, *sums = sums_of(fds[name], file, blobs)
        except EOFError:
            raise CheckpointBroken(str(opened.path), f"{name} is cut short.") from None
        if head != file.checksum:
            raise CheckpointBroken(str(opened.path), f"{name} was changed after it was written, at its beginning.")
        for blob, found in zip(blobs, sums, strict=True):
            if found != blob.checksum:
                raise CheckpointBroken(str(opened.path), f"{name} was changed after it was written, in {blob.name}.")
