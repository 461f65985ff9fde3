"""Files of h5py that are open for reading, and what is in them: the other process opens the same file again.

One that is closed stays closed. One that is open for writing does not travel: two processes would write it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ..kind import Kind, Pickler, Reduced

_WRITTEN = "an HDF5 file that is open for writing. Close it before, or open it inside the cell, or with mode 'r'."


def reduce_held(held: Any, pickler: Pickler) -> Reduced:
    """A file, or a group or data set in one."""
    if not held.id:
        return make_closed, (type(held),)
    file = held.file
    if file.mode != "r":
        return pickler.refuse(held, _WRITTEN)
    place = file.filename, file.driver, file.swmr_mode
    return (open_again, place) if held == file else (find_in_file, (*place, held.name))


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


_HELD = Kind(reduce=reduce_held, state=is_closed, fill=close)


def find(cls: type) -> Kind | None:
    h5py = sys.modules["h5py"]
    return _HELD if issubclass(cls, (h5py.File, h5py.Group, h5py.Dataset)) else None
