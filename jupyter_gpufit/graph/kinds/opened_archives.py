"""Archives that are open for reading, and what np.load makes of an .npz: opened again where they are."""

from __future__ import annotations

import os
import sys
import zipfile
from typing import Any

from ...errors import CannotArrive
from ..kind import Kind, Pickler, Reduced
from . import instances

_GONE = "an open archive, whose file is not there any more, or was never one. Load it inside the cell"


def find(cls: type) -> Kind | None:
    if cls is zipfile.ZipFile:
        return Kind(reduce=reduce_archive)
    numpy = sys.modules.get("numpy")
    return Kind(reduce=reduce_npz) if numpy is not None and cls is numpy.lib.npyio.NpzFile else None


def reduce_archive(obj: zipfile.ZipFile, pickler: Pickler) -> Reduced:
    if (path := _path(obj)) is None:
        return pickler.refuse(obj, f"{_GONE}.")
    return make_archive, (path, obj.filename, obj.pwd)


def make_archive(path: str, name: Any, password: bytes | None) -> zipfile.ZipFile:
    made = zipfile.ZipFile(_opened(path))
    made._filePassed = 0  # type: ignore[attr-defined]  # it is the archive's own to close
    made.filename = name
    made.pwd = password
    return made


def reduce_npz(obj: Any, pickler: Pickler) -> Reduced:
    if obj.zip is None:  # it was closed
        plain = instances.find(type(obj))
        return NotImplemented if plain is None else plain.reduce(obj, pickler)
    if (path := _path(obj.zip)) is None:
        return pickler.refuse(obj, f"{_GONE}, or make arrays of it: dict(np.load(...)).")
    return make_npz, (path, obj.allow_pickle, obj.pickle_kwargs, obj.max_header_size)


def make_npz(path: str, *how: Any) -> Any:
    from numpy.lib.npyio import NpzFile

    allow_pickle, pickle_kwargs, most = how
    return NpzFile(
        _opened(path), own_fid=True, allow_pickle=allow_pickle, pickle_kwargs=pickle_kwargs, max_header_size=most
    )


def _opened(path: str) -> Any:
    try:
        return open(path, "rb")
    except OSError as error:
        raise CannotArrive(path, f"it was open for reading, and now: {error.strerror}. Put it back.") from error


def _path(archive: zipfile.ZipFile) -> str | None:
    """Where its file is now; None: it is none that can be opened again."""
    if archive.mode != "r" or archive.fp is None:
        return None
    try:
        fd = archive.fp.fileno()
        path = os.readlink(f"/proc/self/fd/{fd}")
        return path if os.path.samestat(os.stat(path), os.fstat(fd)) else None
    except (OSError, ValueError, AttributeError):  # in memory
        return None
