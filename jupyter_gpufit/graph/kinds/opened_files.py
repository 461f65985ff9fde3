"""Files that are open: opened again where they are, at their position, by whoever goes on with them.

What the kernel has not written yet is written first, and nothing is cut off. On the way back the notebook's own file
stands where the worker's stood, and is closed if that was. Not covered: pipes, sockets and compressed files; a file
that has no path any more, or on which a lock is held; how one that is only written ends lines (`newline="\\r\\n"`).
"""

from __future__ import annotations

import csv
import gc
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from ...errors import CannotArrive
from ...units import MiB
from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE
from .instances import INSTANCE
from .odd import reduce_file
from .streams import STREAMS

_NEW = os.O_WRONLY | os.O_CREAT  # it may be gone
_FLAGS = {"r": os.O_RDONLY, "w": _NEW, "a": _NEW | os.O_APPEND, "x": _NEW}
_READ_AHEAD = 64 * MiB  # of text that a loop over lines has not come to
_FORM = "delimiter doublequote escapechar lineterminator quotechar quoting skipinitialspace strict".split()
_WRITER = type(csv.writer(io.StringIO()))
_CLOSER: Any = getattr(tempfile, "_TemporaryFileCloser", None)

State = tuple[bool, int] | None  # whether it is closed, and its position; None: that is not known


def find(cls: type) -> Kind | None:
    return _KINDS.get(cls)


class CannotOpenAgain(Exception):
    """Its text says what the file is."""


def reduce_opened(obj: Any, pickler: Pickler, how: Callable[[Any, Any], Reduced]) -> Reduced:
    if _is_standard(obj) or obj.closed:
        return reduce_file(obj, pickler)
    try:
        return how(obj, pickler)
    except (OSError, CannotOpenAgain) as error:
        why = f"an open file that cannot be opened again where it is: {error}"
        return pickler.refuse(obj, f"{why}. Open it inside the cell.")


def _is_standard(file: Any) -> bool:
    """What `redirect_stdout` has put there is the user's."""
    return any(file is getattr(sys, f"__{name}__") for name in STREAMS)


# Back ----------------------------------------------------------------------------------------------------------------


def state_of(file: Any) -> State:
    try:
        if file.closed:
            return True, 0
        if _is_standard(file):
            return None
        if file.writable():
            file.flush()
        return False, position_of(file, path_of(file)) if isinstance(file, io.TextIOWrapper) else file.tell()
    except (OSError, ValueError, CannotOpenAgain):
        return None


def fill_file(file: Any, state: State) -> None:
    """Of a text, its bytes and its file, which all come, the text is the last: its position is that of all."""
    if state is None or file.closed:
        return
    closed, position = state
    file.close() if closed else file.seek(position)


# Text ----------------------------------------------------------------------------------------------------------------


def reduce_text(file: io.TextIOWrapper, pickler: Pickler) -> Reduced:
    return reduce_opened(file, pickler, _text)


def _text(file: io.TextIOWrapper, pickler: Pickler) -> Reduced:
    path = path_of(file)
    if file.writable():
        file.flush()
    position = position_of(file, path)
    newline = _newline(file, path, position) if file.readable() else ""
    form = (file.encoding, file.errors, file.line_buffering, file.write_through, newline, getattr(file, "mode", None))
    return make_text, (file.buffer, *form), (position, size_of(file)), None, None, seek


def make_text(
    buffer: Any, encoding: str, errors: str, lines: bool, through: bool, newline: str | None, mode: str | None
) -> io.TextIOWrapper:
    made = io.TextIOWrapper(buffer, encoding, errors, newline, lines, through)
    if mode is not None:
        made.mode = mode  # type: ignore[misc]
    return made


def position_of(file: io.TextIOWrapper, path: str) -> int:
    try:
        return file.tell()
    except OSError:  # a loop over its lines has it, and has read ahead
        if not _is_stateless(file):
            raise CannotOpenAgain(f"a loop goes over its lines, and it is {file.encoding}") from None
        if os.stat(path).st_size - os.lseek(file.fileno(), 0, os.SEEK_CUR) > _READ_AHEAD:
            raise CannotOpenAgain("a loop goes over its lines, and more than 64 MiB are left") from None
        rest = file.read()
        if "\n" in rest and _first_return(path) is not None:
            raise CannotOpenAgain("a loop goes over its lines, which end in \\r") from None
        position = os.stat(path).st_size - len(rest.encode(file.encoding, file.errors or "strict"))
        file.seek(position)
        return position


def _newline(file: io.TextIOWrapper, path: str, position: int) -> str | None:
    """The argument it was opened with, which it does not show: None translates a \r, and "" does not."""
    at = _first_return(path)
    if at is None:
        return ""  # there is nothing to translate
    if not _is_stateless(file):
        raise CannotOpenAgain("its lines end in \\r, and whether that is translated cannot be seen")
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


# Bytes ---------------------------------------------------------------------------------------------------------------


def reduce_buffered(file: Any, pickler: Pickler) -> Reduced:
    return reduce_opened(file, pickler, _buffered)


def _buffered(file: Any, pickler: Pickler) -> Reduced:
    if file.writable():
        file.flush()
    path_of(file)
    return type(file), (file.raw,), (file.tell(), size_of(file)), None, None, seek


def size_of(file: Any) -> int:
    return os.fstat(file.fileno()).st_size


def seek(file: Any, state: tuple[int, int]) -> None:
    """Go to where it was, and to the end of one that has lost what was there: writing must not leave a gap."""
    position, size = state
    if file.writable() and position > size_of(file) < size:
        file.seek(0, io.SEEK_END)
    else:
        file.seek(position)


def _reduce_raw(file: io.FileIO, pickler: Pickler) -> Reduced:
    return reduce_opened(file, pickler, _raw)


def _raw(file: io.FileIO, pickler: Pickler) -> Reduced:
    path = path_of(file)
    with open(f"/proc/self/fdinfo/{file.fileno()}") as looks:
        if any(line.startswith("lock:") for line in looks):
            raise CannotOpenAgain(f"{path} is locked by this process")
    return make_opened, (path, file.name, file.mode), (file.tell(), size_of(file)), None, None, seek


def make_opened(path: str, name: Any, mode: str) -> io.FileIO:
    try:
        return open_again(path, name, mode)
    except OSError as error:
        raise CannotArrive(path, f"it was open in the notebook, and now: {error.strerror}. Put it back.") from error


def open_again(path: str, name: Any, mode: str) -> io.FileIO:
    """`path`: where it is; `name`: as it was opened."""
    if "+" in mode:
        flags = os.O_RDWR | (os.O_APPEND if "a" in mode else 0)
    else:
        flags = _FLAGS[mode[0]]
    made = io.FileIO(os.open(path, flags | os.O_CLOEXEC, 0o666), mode.replace("x", "w"))
    made.name = name
    return made


def path_of(file: Any) -> str:
    """Its path now, which need not be the one it was opened by."""
    return path_behind(file.fileno())


def path_behind(fd: int) -> str:
    found, path = os.fstat(fd), os.readlink(f"/proc/self/fd/{fd}")
    if not stat.S_ISREG(found.st_mode) and path != os.devnull:
        raise CannotOpenAgain("it is a pipe, a terminal or a device")
    try:
        there = os.stat(path)
    except OSError:
        raise CannotOpenAgain(f"{path} does not exist any more") from None
    if (there.st_dev, there.st_ino) != (found.st_dev, found.st_ino):
        raise CannotOpenAgain(f"{path} is another file now")
    return path


# What is around them -------------------------------------------------------------------------------------------------


# It deletes its file when it goes, also in a process that has only borrowed it.
def _reduce_closer(obj: Any, pickler: Pickler) -> Reduced:
    if obj.delete and not obj.file.closed and not pickler.is_snapshot:
        return pickler.refuse(obj, f"a temporary file, which this process deletes when it closes it. {INSIDE}.")
    return INSTANCE.reduce(obj, pickler)


# A csv.writer holds nothing but its file's write().
def _reduce_writer(obj: Any, pickler: Pickler) -> Reduced:
    write = next(one for one in gc.get_referents(obj) if callable(one) and hasattr(one, "__self__"))
    return make_csv_writer, (write.__self__, form_of(obj))


def form_of(obj: Any) -> dict[str, Any]:
    return {name: getattr(obj.dialect, name) for name in _FORM}


def make_csv_writer(file: Any, form: dict[str, Any]) -> Any:
    return csv.writer(file, **form)


def _kind(reduce: Callable[[Any, Any], Reduced]) -> Kind:
    return Kind(reduce=reduce, state=state_of, fill=fill_file)


_KINDS: dict[type, Kind] = {
    io.TextIOWrapper: _kind(reduce_text),
    io.FileIO: _kind(_reduce_raw),
    io.BufferedReader: _kind(reduce_buffered),
    io.BufferedWriter: _kind(reduce_buffered),
    io.BufferedRandom: _kind(reduce_buffered),
    _WRITER: Kind(reduce=_reduce_writer),
    **({_CLOSER: Kind(reduce=_reduce_closer, state=INSTANCE.state, fill=INSTANCE.fill)} if _CLOSER else {}),
}
