"""Files of h5py that are open for reading, and what is in them: the other process opens the same file again.

One that is closed stays closed. One that is open for writing does not travel: two processes would write it.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE
from .opened_files import CannotOpenAgain, path_behind

_WRITTEN = "an HDF5 file that is open for writing. Close it before, or open it inside the cell, or with mode 'r'."
_NOT_A_FILE = "what h5py keeps of a file that is open. Take what is in it before: `dict(file.attrs)`, say."


def reduce_held(held: Any, pickler: Pickler) -> Reduced:
    """A file, or a group or data set in one."""
    if not held.id:
        return make_closed, (type(held),)
    file = held.file
    if file.mode != "r":
        return pickler.refuse(held, _WRITTEN)
    if type(held) not in _classes():
        return pickler.refuse(held, f"an HDF5 file of a class of its own. {INSIDE}.")
    try:
        place = _path(file), file.driver, file.swmr_mode
    except CannotOpenAgain as error:
        return pickler.refuse(held, f"an HDF5 file: {error}. {INSIDE}.")
    return (open_again, place) if isinstance(held, sys.modules["h5py"].File) else (find_in_file, (*place, held.name))


def reduce_part(part: Any, pickler: Pickler) -> Reduced:
    return pickler.refuse(part, _NOT_A_FILE)


def _path(file: Any) -> str:
    """Its path now: the process may stand in another directory than when it was opened."""
    if file.driver == "sec2":  # the usual one
        return path_behind(file.id.get_vfd_handle())
    path = str(file.filename)
    if not os.path.isabs(path) or not os.path.isfile(path):
        raise CannotOpenAgain(f"{path} is not a full path of a file, and its driver, {file.driver!r}, tells no other")
    return path


def open_again(path: str, driver: str, swmr: bool) -> Any:
    return import_module("h5py").File(path, "r", driver=driver, swmr=swmr)


def find_in_file(path: str, driver: str, swmr: bool, name: str) -> Any:
    return open_again(path, driver, swmr)[name]


def make_closed(cls: Any) -> Any:
    made = object.__new__(cls)
    import_module("h5py").HLObject.__init__(made, import_module("h5py.h5f").FileID(0))
    return made


def is_closed(held: Any) -> bool:
    return not held.id


def close(held: Any, closed: bool) -> None:
    if closed and isinstance(held, sys.modules["h5py"].File):
        held.close()


def _classes() -> tuple[type, ...]:
    h5py = sys.modules["h5py"]
    return h5py.File, h5py.Group, h5py.Dataset


_PART = Kind(reduce=reduce_part)
_HELD = Kind(reduce=reduce_held, state=is_closed, fill=close)


def find(cls: type) -> Kind | None:
    if issubclass(cls, sys.modules["h5py"]._objects.ObjectID):
        return _PART
    return _HELD if issubclass(cls, _classes()) else None
