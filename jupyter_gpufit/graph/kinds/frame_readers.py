"""What reads a table in pieces (`pd.read_csv(..., chunksize=...)`): its file is opened again, and read to where it was.

The rows before are read once more, in pieces of the same size, so that what is kept of one at a time stays small. Not
covered: what was given as an open file, what is in a zip archive, and a file that is at an address in a network.
"""

from __future__ import annotations

import io
import os
from collections import deque
from typing import Any

import pandas
from pandas.io.parsers.readers import TextFileReader, read_csv

from ...errors import CannotArrive
from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE
from .opened_files import CannotOpenAgain, path_behind

_AT_ONCE = 1 << 16  # rows, where it was not said how many are wanted
_AT_ITS_END = "at its end"
_READ_ONCE_CLOSED_ENDS_ALL = int(pandas.__version__.partition(".")[0]) < 3

State = tuple[str, int]  # whether it is closed, and how; and how many rows it has given


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_reader, state=state_of, fill=read_on) if cls is TextFileReader else None


def reduce_reader(reader: Any, pickler: Pickler) -> Reduced:
    options, state = dict(reader.orig_options), state_of(reader)
    if state[0]:
        return make_closed, (reader.engine, options, state[0]), state, None, None, read_on
    try:
        path = _path(reader)
    except (OSError, CannotOpenAgain) as error:
        return pickler.refuse(reader, f"a table that is being read in pieces: {error}. {INSIDE}.")
    if options.get("compression") == "infer":  # by the end of the name that it was given
        options["compression"] = reader.handles.compression["method"]
    return open_again, (path, os.stat(path).st_size, reader.engine, options), state, None, None, read_on


def _path(reader: Any) -> str:
    if not reader.handles.created_handles:
        raise CannotOpenAgain("it was given a file that is open")
    try:
        return path_behind(reader.handles.handle.fileno())
    except (AttributeError, io.UnsupportedOperation):
        raise CannotOpenAgain("what it reads from is in no file of its own") from None


def state_of(reader: Any) -> State:
    return _how_closed(reader), reader._currow


def _how_closed(reader: Any) -> str:
    """One that is at its end has closed itself, and goes on having nothing; one that was closed before is an error.

    Before pandas 3 that error ends the process, in compiled code. No program needs it there, and none is told apart.
    """
    if reader.handles is None or not getattr(reader.handles.handle, "closed", False):
        return ""
    if _READ_ONCE_CLOSED_ENDS_ALL and reader.engine == "c":
        return _AT_ITS_END
    try:
        reader.get_chunk(1)
    except StopIteration:
        return _AT_ITS_END
    except ValueError:
        pass
    return "before"


def open_again(path: str, size: int, engine: Any, options: dict[str, Any]) -> Any:
    try:
        now = os.stat(path).st_size
    except OSError as error:
        raise CannotArrive(path, f"it was being read, and now: {error.strerror}. Put it back.") from error
    if now < size:
        raise CannotArrive(path, f"it was being read, and has {now:,} bytes now where it had {size:,}. Put it back.")
    return TextFileReader(path, engine=engine, **options)


def make_closed(engine: str, options: dict[str, Any], closed: str) -> Any:
    made: Any = read_csv(io.StringIO("a\n0"), chunksize=options.get("chunksize") or 1)
    if closed == _AT_ITS_END:
        deque(made, 0)
    made.close()
    made.handles.handle.close()
    made.engine, made.orig_options = engine, options
    return made


def read_on(reader: Any, state: State) -> None:
    closed, rows = state
    while reader._currow < rows and not _how_closed(reader):
        reader.get_chunk(min(rows - reader._currow, reader.chunksize or _AT_ONCE))
    if closed == _AT_ITS_END:
        deque(reader, 0)  # which sees that nothing is left
    if closed:
        reader.close()
