"""Files of a silent rank: what its cell writes goes to a scratch directory, and there it finds it again.

Contained (system/contained.py) redirects what Python opens. Here is the rest of what a cell sees of its own files, so
that it decides as the first rank does: what C code of torch and safetensors writes and reads, what there is, what was
renamed, copied or removed. Not covered: other C code that writes, which is refused where the kernel has Landlock; and
`os.scandir`, which shows the first rank's files.
"""

from __future__ import annotations

import errno
import importlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import torch
from IPython.core import interactiveshell
from torch import serialization

from ...system.contained import Contained
from ...system.packages import stated

Function = Callable[..., Any]


def part_from_first(came: Iterable[Any], contained: Contained) -> None:
    """Open anew what an earlier cell had open: a fork shares the place in it. What can only be written leads nowhere.

    To be called before `contained` closes what is open.
    """
    for one in came:
        if type(one) is not io.FileIO or one.closed or not one.readable():
            continue
        fd, path = one.fileno(), os.readlink(f"/proc/self/fd/{one.fileno()}")
        flags = os.O_CLOEXEC | (os.O_RDWR if one.writable() else os.O_RDONLY) | (os.O_APPEND if "a" in one.mode else 0)
        with suppress(OSError):  # gone: it stays as it is
            own = os.open(contained.place_of(path, "a" if one.writable() else "r"), flags)
            os.lseek(own, os.lseek(fd, 0, os.SEEK_CUR), os.SEEK_SET)
            os.dup2(own, fd, inheritable=False)
            os.close(own)


def begin(contained: Contained) -> None:
    """To be called once, after it has begun."""
    vars(interactiveshell)["io_open"] = open  # a cell's own `open` asks this one
    serialization._open_zipfile_writer = _writes(contained, serialization._open_zipfile_writer, 0)
    _redirect_mapping(contained)
    _redirect_safetensors(contained)
    _Tree(contained).begin()


def _redirect_mapping(contained: Contained) -> None:
    """Of `torch.load(path, mmap=True)`."""
    real = torch.UntypedStorage.from_file

    def map_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
        return real(contained.place_of(filename, "a" if shared else "r"), shared, nbytes)

    torch.UntypedStorage.from_file = staticmethod(map_file)  # type: ignore[method-assign]


def _redirect_safetensors(contained: Contained) -> None:
    try:
        library, torchs = importlib.import_module("safetensors"), importlib.import_module("safetensors.torch")
    except ImportError:
        return
    for name, redirected in (
        ("serialize_file", _writes(contained, library.serialize_file, 1)),
        ("safe_open", _reads(contained, library.safe_open)),
    ):
        real = getattr(library, name)
        for module in {library, torchs, *sys.modules.values()}:
            if stated(module, name) is real:  # somebody may have imported it by name
                setattr(module, name, redirected)


def _writes(contained: Contained, real: Function, at: int) -> Function:
    def write(*args: Any, **kwargs: Any) -> Any:
        if len(args) > at and isinstance(args[at], (str, bytes, os.PathLike)):
            args = (*args[:at], contained.place_of(args[at], "w"), *args[at + 1 :])
        elif "filename" in kwargs:
            kwargs["filename"] = contained.place_of(kwargs["filename"], "w")
        return real(*args, **kwargs)

    return write


def _reads(contained: Contained, real: Function) -> Function:
    def read(filename: Any, *args: Any, **kwargs: Any) -> Any:
        return real(contained.place_of(filename, "r"), *args, **kwargs)

    return read


class _Tree:
    """What there is, for this rank."""

    def __init__(self, contained: Contained) -> None:
        self._contained, self._copies = contained, contained.copies
        self._made: set[str] = set()  # folders
        self._gone: set[str] = set()

    def begin(self) -> None:
        for name in ("stat", "lstat", "access"):
            setattr(os, name, self._look(getattr(os, name)))
        for name in ("mkdir", "makedirs"):
            setattr(os, name, self._noted(getattr(os, name), self._make))
        for name in ("remove", "unlink", "rmdir"):
            setattr(os, name, self._noted(getattr(os, name), self._remove))
        shutil.rmtree = self._noted(shutil.rmtree, self._remove)  # type: ignore[assignment]
        for name in ("rename", "replace"):
            setattr(os, name, self._noted(getattr(os, name), self._rename))
        shutil.move = self._noted(shutil.move, self._rename)
        for name in ("copy", "copy2", "copyfile"):
            setattr(shutil, name, self._noted(getattr(shutil, name), self._copy))

    def _look(self, real: Function) -> Function:
        def look(path: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(path, int) or kwargs.get("dir_fd") is not None:
                return real(path, *args, **kwargs)
            whole = os.path.abspath(os.fsdecode(path))
            if whole in self._gone and whole not in self._copies:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            if whole in self._made:
                return real(self._contained.scratch, *args, **kwargs)
            return real(self._copies.get(whole, path), *args, **kwargs)

        return look

    def _noted(self, real: Function, note: Callable[..., None]) -> Function:
        """Something changes; outside of the scratch directory, in our books alone."""

        def change(path: Any, *args: Any, **kwargs: Any) -> Any:
            paths = [path, *args[:1]] if note in (self._rename, self._copy) else [path]
            if kwargs.keys() & {"dir_fd", "src_dir_fd", "dst_dir_fd"} or not all(map(_is_path, paths)):
                return real(path, *args, **kwargs)
            whole = [os.path.abspath(os.fsdecode(one)) for one in paths]
            if not all(map(self._contained.is_ours, whole)):
                note(*whole)
            return real(path, *args, **kwargs)

        return change

    def _make(self, path: str) -> None:
        self._made.add(path)
        self._gone.discard(path)

    def _remove(self, path: str) -> None:
        for one in [one for one in self._copies if one == path or one.startswith(path + os.sep)]:
            del self._copies[one]
            self._gone.add(one)
        self._made.discard(path)
        self._gone.add(path)

    def _rename(self, path: str, to: str) -> None:
        if path in self._copies:
            self._copies[to] = self._copies.pop(path)
            self._gone.add(path)

    def _copy(self, path: str, to: str) -> None:
        if path in self._copies:
            if os.path.isdir(to):
                to = os.path.join(to, os.path.basename(path))
            with open(self._copies[path], "rb") as found, open(self._contained.place_of(to, "w"), "wb") as copy:
                shutil.copyfileobj(found, copy)


def _is_path(value: object) -> bool:
    return isinstance(value, (str, bytes, os.PathLike))
