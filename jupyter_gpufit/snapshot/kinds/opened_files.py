"""Open files: found again under their path, at the same position.

A file that is written is cut to the size it had when the snapshot was taken (see users_files.py), so that a resumed
training does not write its lines twice. Not covered: what was overwritten within that size, pipes, sockets and
compressed files.
"""

from __future__ import annotations

import contextlib
import csv
import gc
import io
import os
import stat
import sys
from typing import TYPE_CHECKING, Any

from ...errors import CannotArrive
from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance
from ...graph.kinds.odd import _writes_to, find_stream, reduce_file
from ...graph.kinds.streams import OUTPUT, STREAMS
from ...units import MiB

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring

_NEW = os.O_WRONLY | os.O_CREAT  # it may be gone
_FLAGS = {"r": os.O_RDONLY, "w": _NEW, "a": _NEW | os.O_APPEND, "x": _NEW}
_READ_AHEAD = 64 * MiB  # of text that a loop over lines has not come to
_FORM = "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict".split()
_WRITER, _READER = type(csv.writer(io.StringIO())), type(csv.reader(()))


def find(cls: type) -> Kind | None:
    if issubclass(cls, contextlib._RedirectStream):
        return Kind(reduce=reduce_redirection)
    if f"{cls.__module__}.{cls.__qualname__}" == OUTPUT:
        return Kind(reduce=reduce_output)
    return _KINDS.get(cls)


# While `with redirect_stdout(f)` is on, the worker's own stream is only known to that.
def reduce_redirection(obj: Any, pickler: SnapshotPickler) -> Reduced:
    return make_instance, (type(obj),), (pickler.restoring, dict(vars(obj))), None, None, redirect_again


def redirect_again(obj: Any, state: tuple[Restoring, dict[str, Any]]) -> None:
    restoring, own = state
    vars(obj).update(own)
    if obj._old_targets:
        restoring.last.append(lambda: setattr(sys, obj._stream, obj._new_target))


def reduce_output(obj: Any, pickler: SnapshotPickler) -> Reduced:
    return find_stream, (obj._stream,)


class _Unsavable(Exception):
    """Its text says what the file is, and what to do."""


def _reduce(obj: Any, pickler: SnapshotPickler, how: Any) -> Reduced:
    standard = any(obj is getattr(sys, f"__{name}__") or _writes_to(obj, name) for name in STREAMS)
    if standard or obj.closed:
        return reduce_file(obj, pickler)
    try:
        return how(obj, pickler)
    except (OSError, _Unsavable) as error:
        return pickler.name_it(obj, f"an open file that cannot be opened again where it is: {error}. Close it before.")


def reduce_text(file: io.TextIOWrapper, pickler: SnapshotPickler) -> Reduced:
    return _reduce(file, pickler, _text)


def _text(file: io.TextIOWrapper, pickler: SnapshotPickler) -> Reduced:
    path = _path(file)
    if file.writable():
        file.flush()
    position = _position(file, path)
    newline = _newline(file, path, position) if file.readable() else ""
    form = (file.encoding, file.errors, file.line_buffering, file.write_through, newline, getattr(file, "mode", None))
    return make_text, (file.buffer, *form), (position, _size(file)), None, None, seek


def make_text(
    buffer: Any, encoding: str, errors: str, lines: bool, through: bool, newline: str | None, mode: str | None
) -> io.TextIOWrapper:
    made = io.TextIOWrapper(buffer, encoding, errors, newline, lines, through)
    if mode is not None:
        made.mode = mode  # type: ignore[misc]
    return made


def _position(file: io.TextIOWrapper, path: str) -> int:
    try:
        return file.tell()
    except OSError:  # a loop over its lines has it, and has read ahead
        if not _is_stateless(file):
            raise _Unsavable(f"a loop goes over its lines, and it is {file.encoding}") from None
        if os.stat(path).st_size - os.lseek(file.fileno(), 0, os.SEEK_CUR) > _READ_AHEAD:
            raise _Unsavable("a loop goes over its lines, and more than 64 MiB are left") from None
        rest = file.read()
        if "\n" in rest and _first_return(path) is not None:
            raise _Unsavable("a loop goes over its lines, which end in \\r") from None
        position = os.stat(path).st_size - len(rest.encode(file.encoding, file.errors or "strict"))
        file.seek(position)
        return position


def _newline(file: io.TextIOWrapper, path: str, position: int) -> str | None:
    """The argument it was opened with, which it does not show: None translates a \r, and "" does not."""
    at = _first_return(path)
    if at is None:
        return ""  # there is nothing to translate
    if not _is_stateless(file):
        raise _Unsavable("its lines end in \\r, and whether that is translated cannot be seen")
    file.seek(at)
    seen = file.read(1)
    file.seek(position)
    return "" if seen == "\r" else None


def _is_stateless(file: io.TextIOWrapper) -> bool:
    return file.encoding.lower().replace("-", "").replace("_", "") in ("utf8", "ascii", "latin1", "iso88591", "cp1252")


def _first_return(path: str) -> int | None:
    with open(path, "rb") as file:
        start = 0
        while block := file.read(MiB):
            if (at := block.find(b"\r")) >= 0:
                return start + at
            start += len(block)
    return None


def reduce_buffered(file: Any, pickler: SnapshotPickler) -> Reduced:
    return _reduce(file, pickler, _buffered)


def _buffered(file: Any, pickler: SnapshotPickler) -> Reduced:
    if file.writable():
        file.flush()
    _path(file)
    return type(file), (file.raw,), (file.tell(), _size(file)), None, None, seek


def _size(file: Any) -> int:
    return os.fstat(file.fileno()).st_size


def seek(file: Any, state: tuple[int, int]) -> None:
    """Go to where it was, and to the end of one that has lost what was there: writing must not leave a gap."""
    position, size = state
    if file.writable() and position > _size(file) < size:
        file.seek(0, io.SEEK_END)
    else:
        file.seek(position)


def reduce_raw(file: io.FileIO, pickler: SnapshotPickler) -> Reduced:
    return _reduce(file, pickler, _raw)


def _raw(file: io.FileIO, pickler: SnapshotPickler) -> Reduced:
    path = _path(file)
    if file.writable():
        pickler.take_file(path, read=file.readable())
    return make_raw, (pickler.restoring, path, file.name, file.mode), (file.tell(), _size(file)), None, None, seek


def make_raw(restoring: Restoring, path: str, name: Any, mode: str) -> io.FileIO:
    if "+" in mode:
        flags = os.O_RDWR | (os.O_APPEND if "a" in mode else 0)
    else:
        flags = _FLAGS[mode[0]]
    try:
        fd = os.open(restoring.files.where(path), flags | os.O_CLOEXEC, 0o666)
    except OSError as error:
        why = f"it was open at the checkpoint, and now: {error.strerror}. Put it back, and resume again."
        raise CannotArrive(path, why) from error
    made = io.FileIO(fd, mode.replace("x", "w"))
    made.name = name
    return made


def _path(file: Any) -> str:
    """Its path now, which need not be the one it was opened by."""
    fd = file.fileno()
    found, path = os.fstat(fd), os.readlink(f"/proc/self/fd/{fd}")
    if not stat.S_ISREG(found.st_mode):
        raise _Unsavable("it is a pipe, a terminal or a device")
    try:
        there = os.stat(path)
    except OSError:
        raise _Unsavable(f"{path} does not exist any more") from None
    if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
        raise _Unsavable(f"{path} is another file now")
    return path


# A csv.writer holds nothing but its file's write(), a csv.reader nothing but its lines and how many they were.
def reduce_csv(obj: Any, pickler: SnapshotPickler) -> Reduced:
    if isinstance(obj, _READER):
        lines = next(one for one in gc.get_referents(obj) if hasattr(one, "__next__"))
        lines = lines.lines if isinstance(lines, CountedFile) else lines
        return make_csv_reader, (lines, _form(obj), obj.line_num)
    write = next(one for one in gc.get_referents(obj) if callable(one) and hasattr(one, "__self__"))
    return make_csv_writer, (write.__self__, _form(obj))


class CountedFile:
    """The lines that are left, behind so many empty ones: a reader's line_num cannot be set, but it counts."""

    def __init__(self, lines: Any, read: int) -> None:
        self.lines, self._read = lines, read

    def __iter__(self) -> CountedFile:
        return self

    def __next__(self) -> Any:
        if self._read:
            self._read -= 1
            return ""
        return next(self.lines)


def _form(obj: Any) -> dict[str, Any]:
    return {name: getattr(obj.dialect, name) for name in _FORM}


def make_csv_writer(file: Any, form: dict[str, Any]) -> Any:
    return csv.writer(file, **form)


def make_csv_reader(lines: Any, form: dict[str, Any], read: int) -> Any:
    made = csv.reader(CountedFile(lines, read), **form)
    for _ in range(read):
        next(made)
    return made


_KINDS: dict[type, Kind] = {
    io.TextIOWrapper: Kind(reduce=reduce_text),
    io.FileIO: Kind(reduce=reduce_raw),
    io.BufferedReader: Kind(reduce=reduce_buffered),
    io.BufferedWriter: Kind(reduce=reduce_buffered),
    io.BufferedRandom: Kind(reduce=reduce_buffered),
    _WRITER: Kind(reduce=reduce_csv),
    _READER: Kind(reduce=reduce_csv),
}
