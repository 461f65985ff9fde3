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
import sys
from typing import TYPE_CHECKING, Any

from ...errors import CannotArrive
from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance
from ...graph.kinds.odd import find_stream
from ...graph.kinds.opened_files import form_of, open_again, path_of, reduce_opened, seek, size_of
from ...graph.kinds.streams import OUTPUT
from ...system.objects import module_of

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring

_READER = type(csv.reader(()))


def find(cls: type) -> Kind | None:
    if issubclass(cls, contextlib._RedirectStream):
        return Kind(reduce=reduce_redirection)
    if f"{module_of(cls)}.{cls.__qualname__}" == OUTPUT:
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


def reduce_raw(file: io.FileIO, pickler: SnapshotPickler) -> Reduced:
    return reduce_opened(file, pickler, _raw)


def _raw(file: io.FileIO, pickler: SnapshotPickler) -> Reduced:
    path = path_of(file)
    if file.writable():
        pickler.take_file(path, read=file.readable())
    return make_raw, (pickler.restoring, path, file.name, file.mode), (file.tell(), size_of(file)), None, None, seek


def make_raw(restoring: Restoring, path: str, name: Any, mode: str) -> io.FileIO:
    try:
        return open_again(restoring.files.where(path), name, mode)
    except OSError as error:
        why = f"it was open at the checkpoint, and now: {error.strerror}. Put it back, and resume again."
        raise CannotArrive(path, why) from error


# A csv.reader holds nothing but its lines and how many they were.
def reduce_csv(obj: Any, pickler: SnapshotPickler) -> Reduced:
    lines = next(one for one in gc.get_referents(obj) if hasattr(one, "__next__"))
    lines = lines.lines if isinstance(lines, CountedFile) else lines
    return make_csv_reader, (lines, form_of(obj), obj.line_num)


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


def make_csv_reader(lines: Any, form: dict[str, Any], read: int) -> Any:
    made = csv.reader(CountedFile(lines, read), **form)
    for _ in range(read):
        next(made)
    return made


_KINDS: dict[type, Kind] = {
    io.FileIO: Kind(reduce=reduce_raw),
    _READER: Kind(reduce=reduce_csv),
}
