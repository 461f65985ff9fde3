"""Keeps a cell's copy from changing anything outside its process: files, servers, other processes.

A trial run is one, and so is every rank of a training but the first, whose files, prints and messages are the job's.

Three nets, each for what slips through the one before. What Python opens for writing goes to a scratch directory. An
audit hook refuses the other ways that Python knows. Where the kernel has Landlock, it refuses all writes outside, also
those of compiled code and of programs that the cell starts.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import errno
import fcntl
import io
import os
import shutil
import socket
import stat
import struct
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile  # the real one, also when the module's is another
from types import ModuleType
from typing import Any

from ..units import MiB
from .names import Holders, holders_of, replace_everywhere

_HARMLESS = ("/dev/", "/proc/self/")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_UNNAMED = getattr(os, "O_TMPFILE", -1)
_COPIED = 64 * MiB  # a file up to this size is copied before it is changed; of a larger one the copy is empty
_COPIES = ("copy", "copy2", "copyfile", "copytree")  # of shutil, some of which are made of others
_CHANGING = {
    os: ("mkdir", "makedirs", "remove", "unlink", "rmdir", "rename", "replace", "chmod", "utime", "symlink"),
    shutil: (*_COPIES, "move", "rmtree"),
}
_LOOKING = ("stat", "lstat", "listdir", "scandir", "statvfs", "access", "chdir")  # of os

# Audit events that change the file system, and where in their arguments the paths stand.
_CHANGES = {
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.rmdir": (0,),
    "os.truncate": (0,),
    "os.link": (1,),
    "os.symlink": (1,),
    "os.chmod": (0,),
    "os.chown": (0,),
    "os.setxattr": (0,),
    "os.removexattr": (0,),
    "shutil.rmtree": (0,),
    "sqlite3.connect": (0,),
}
_BESIDE = {"os.remove": (1,), "os.rmdir": (1,), "os.rename": (2, 3)}  # where the directories' descriptors stand there
_LEAVES = ("socket.connect", "socket.sendto", "socket.sendmsg", "urllib.Request")
_STARTS = ("os.exec", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen", "pty.spawn")


def _sqlite3() -> ModuleType | None:
    try:
        import sqlite3
    except ImportError:  # a Python built without it
        return None
    return sqlite3


_known = Holders()


def who_opens_and_changes() -> Holders:
    """Who holds the functions that are replaced in a contained process, for one that is about to fork it."""
    global _known
    changing = [getattr(module, name) for module, names in _CHANGING.items() for name in names]
    databases = [] if (sqlite3 := _sqlite3()) is None else [sqlite3.connect]
    looking = [getattr(os, name) for name in _LOOKING]
    _known = holders_of([io.open, os.open, *changing, *looking, *databases], _known)
    return _known


@dataclass
class Contained:
    """Of this process, for good."""

    scratch: Path
    who: str  # in errors: "an estimate"
    note: Callable[[str], None]  # what was left out, in words
    known: Holders | None = None  # before it was forked
    is_trial: bool = True  # whose other processes run in this one: it needs no semaphores, and nobody to speak to
    copies: dict[str, str] = field(default_factory=dict)  # by the path of a file, or of a folder that was made
    _places: int = 0
    _landlocked: bool = False
    _open_before: set[tuple[int, str]] = field(default_factory=set)
    _replaced: list[tuple[Callable[..., Any], Callable[..., Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._scratch = str(self.scratch)

    def begin(self) -> None:
        self._open_before = set(_all_open())
        os.environ.update(WANDB_MODE="disabled", TMPDIR=self._scratch)
        tempfile.tempdir = self._scratch
        sys.dont_write_bytecode = True
        shared = [] if self.is_trial or not os.path.isdir("/dev/shm") else ["/dev/shm"]
        self._landlocked = landlock(self._scratch, *shared)
        self._redirect_opening()
        self._redirect_changes()
        self._redirect_looking()
        self._redirect_databases()
        replace_everywhere(self._replaced, self.known)
        sys.addaudithook(self._audit)

    def place_of(self, path: str | bytes | os.PathLike[Any], mode: str) -> str:
        """Where a file of this name is for this process, which C code is about to open."""
        whole = os.path.abspath(os.fsdecode(path))
        if self.is_ours(whole):
            return whole
        return self._copy_of(whole, mode) if set(mode) & set("wax+") else self.where(whole)

    def where(self, path: str) -> str:
        """The place of its copy, or its place in a folder that the cell made; else what is asked for."""
        above, below = path, ""
        while above not in self.copies:
            above, name = os.path.split(above)
            if not name:
                return path
            below = os.path.join(name, below) if below else name
        return os.path.join(self.copies[above], below) if below else self.copies[above]

    def close_open_ends(self, keep: Collection[int]) -> None:
        """Let what is open already lead nowhere: log files, pipes, connections; not copies, nor what can only be read.

        In a trial, but for pipes of the variables' own: their processes are threads of this one.
        """
        with open(os.devnull, "r+b") as nowhere:
            for fd, what in list(_all_open()):
                if fd <= 2 or fd in (*keep, nowhere.fileno()) or what.startswith(self._scratch) or not _leads_out(fd):
                    continue
                was_open = (fd, what) in self._open_before or stat.S_ISREG(os.fstat(fd).st_mode)
                if was_open or not self.is_trial:
                    os.dup2(nowhere.fileno(), fd, inheritable=False)

    # The first net

    def _redirect_opening(self) -> None:
        real = io.open

        def open_(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if isinstance(file, int) or self.is_ours(path := os.path.abspath(os.fsdecode(file))):
                return real(file, mode, *args, **kwargs)
            if set(mode) & set("wax+"):
                if (opener := kwargs.get("opener")) is not None:  # it goes on to os.open, as of TemporaryFile(dir=...)
                    kwargs["opener"] = lambda _, flags: opener(file, flags)
                    return real(os.path.join(self._scratch, "opened"), mode, *args, **kwargs)
                return real(self._copy_of(path, mode), mode, *args, **kwargs)
            there = self.where(path)
            return real(file if there == path else there, mode, *args, **kwargs)

        builtins.open = open_
        self._replace(io, "open", open_)
        self._replace(os, "open", self._opening_descriptors(os.open))

    def _opening_descriptors(self, real: Callable[..., int]) -> Callable[..., int]:
        """For lock files and the like."""

        def open_(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            whole = os.path.abspath(os.fsdecode(path))
            if self.is_ours(whole) or kwargs.get("dir_fd") is not None or not flags & _WRITES:
                return real(path, flags, *args, **kwargs)
            is_folder = flags & _UNNAMED == _UNNAMED  # in which a file without a name is wanted
            return real(self._scratch if is_folder else self._copy_of(whole, "a"), flags, *args, **kwargs)

        return open_

    def _copy_of(self, path: str, mode: str) -> str:
        self.note("files written to a scratch directory")
        if path not in self.copies:
            copy = self._place_for(path)
            if "w" not in mode and "x" not in mode and os.path.isfile(path):
                _copy(path, copy)
            elif "x" in mode and os.path.exists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            self.copies[path] = copy
        return self.copies[path]

    def _place_for(self, path: str) -> str:
        if (there := self.where(path)) != path:  # so that the cell finds it there
            return there
        self._places += 1
        return os.path.join(self._scratch, f"{self._places}-{os.path.basename(path)[-100:]}")

    def _redirect_changes(self) -> None:
        """Changes of what the cell made are made, in the scratch directory; others seem to succeed: it goes on."""
        for module, names in _CHANGING.items():
            for name in names:
                self._replace(module, name, self._unless_mine(getattr(module, name)))

    def _unless_mine(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(*args: Any, **kwargs: Any) -> Any:
            paths = [a for a in args[:2] if isinstance(a, (str, bytes, os.PathLike))]
            beside = kwargs.get("dir_fd"), kwargs.get("dir_fd")
            if any(name in kwargs for name in ("src_dir_fd", "dst_dir_fd")):
                beside = kwargs.get("src_dir_fd"), kwargs.get("dst_dir_fd")
            whole = [_whole(path, at) for path, at in zip(paths, beside, strict=False)]
            if all(map(self.is_ours, whole)):
                return real(*args, **kwargs)
            if real.__name__ in _COPIES and self.is_ours(whole[-1]):  # a part of what _change_copies does
                return real(self.where(whole[0]), *args[1:], **kwargs)
            self.note("changes of files left out")
            if beside == (None, None):
                self._change_copies(real, whole, args[len(paths) :], kwargs)
            return paths[-1]

        return change

    def _change_copies(self, real: Callable[..., Any], paths: list[str], args: Any, kwargs: Any) -> None:
        there = [self.where(path) for path in paths]
        match real.__name__:
            case "mkdir" | "makedirs":
                self._make(real, paths[0], args, kwargs)
            case "rename" | "replace" | "move" if self.is_ours(there[0]):
                to = self._within(real, *paths)
                self._forget(to)
                place = self._place_for(to)
                real(there[0], place, *args, **kwargs)
                for one, at in self._forget(paths[0]).items():
                    is_within = at.startswith(there[0] + os.sep)
                    self.copies[to + one[len(paths[0]) :]] = place + at[len(there[0]) :] if is_within else at
                self.copies[to] = place
            case "copy" | "copy2" | "copyfile" if os.path.isfile(there[0]) and os.path.getsize(there[0]) <= _COPIED:
                real(there[0], self._copy_of(self._within(real, *paths), "w"), *args, **kwargs)
            case "copytree" if self.is_ours(there[0]):
                self.copies[paths[1]] = self._place_for(paths[1])
                real(there[0], self.copies[paths[1]], *args, **kwargs)
            case "remove" | "unlink" | "rmdir" | "rmtree" if self.is_ours(there[0]):
                real(there[0], *args, **kwargs)
                self._forget(paths[0])
            case "chmod" | "utime" if self.is_ours(there[0]):
                real(there[0], *args, **kwargs)

    def _make(self, real: Callable[..., Any], path: str, args: Any, kwargs: Any) -> None:
        """A folder: what the cell puts there it finds there."""
        if (there := self.where(path)) != path:
            real(there, *args, **kwargs)
        elif not os.path.exists(path):
            if not os.path.exists(parent := os.path.dirname(path)):
                if real.__name__ == "mkdir":
                    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
                self._make(real, parent, (), {})
            self.copies[path] = self._place_for(path)
            if not os.path.exists(self.copies[path]):
                os.mkdir(self.copies[path])

    def _within(self, real: Callable[..., Any], path: str, to: str) -> str:
        """Where functions of shutil put something that is to be in a folder."""
        is_into = real.__name__ in ("copy", "copy2", "move") and os.path.isdir(self.where(to))
        return os.path.join(to, os.path.basename(path)) if is_into else to

    def _forget(self, path: str) -> dict[str, str]:
        """It is gone, with what is in it; what was noted of them."""
        return {one: self.copies.pop(one) for one in [*self.copies] if one == path or one.startswith(path + os.sep)}

    def _redirect_looking(self) -> None:
        """A folder that the cell made, and a file that it wrote, are there when it looks."""
        for name in _LOOKING:
            self._replace(os, name, self._where_it_is(getattr(os, name)))

    def _where_it_is(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if self.copies and path and isinstance(path, str | bytes | os.PathLike) and kwargs.get("dir_fd") is None:
                whole = os.path.abspath(os.fsdecode(path))
                path = path if (there := self.where(whole)) == whole else there
            return real(path, *args, **kwargs)

        return look

    def _redirect_databases(self) -> None:
        if (sqlite3 := _sqlite3()) is None:
            return
        real = sqlite3.connect

        def connect(database: Any, *args: Any, **kwargs: Any) -> Any:
            path = os.fsdecode(database) if isinstance(database, (str, bytes, os.PathLike)) else ""
            is_file = path not in ("", ":memory:") and not kwargs.get("uri") and not self.is_ours(os.path.abspath(path))
            return real(self._copy_of(os.path.abspath(path), "a") if is_file else database, *args, **kwargs)

        self._replace(sqlite3, "connect", connect)

    def _replace(self, module: ModuleType, name: str, new: Callable[..., Any]) -> None:
        self._replaced.append((getattr(module, name), new))
        setattr(module, name, new)

    # The second

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = args
            if isinstance(flags, int) and flags & _WRITES and not isinstance(path, int) and path is not None:
                self._refuse_unless_mine(path)
        elif event in _CHANGES:
            for place, at in enumerate(_CHANGES[event]):
                if isinstance(args[at], (str, bytes, os.PathLike)):
                    beside = _BESIDE.get(event, ())
                    self._refuse_unless_mine(args[at], args[beside[place]] if place < len(beside) else None)
        elif event in _LEAVES:
            if self.is_trial or not _stays_here(args):
                self._refuse_connection()
        elif event in _STARTS and self.is_trial and not self._landlocked:
            self.note("other programs not started")
            raise PermissionError(errno.EACCES, f"{self.who} starts no other program")

    def _refuse_unless_mine(self, path: Any, beside: int | None = None) -> None:
        found = os.fsdecode(path)
        if found != ":memory:" and not self.is_ours(_whole(found, beside)):
            self.note("files not written")
            raise PermissionError(errno.EACCES, f"{self.who} changes no file", found)

    def _refuse_connection(self) -> None:
        self.note("no connection made to a server")
        raise OSError(errno.ENETUNREACH, f"{self.who} connects to nobody")

    def is_ours(self, path: str) -> bool:
        return path.startswith((self._scratch, *_HARMLESS))


def _copy(path: str, copy: str) -> None:
    if (size := os.path.getsize(path)) <= _COPIED:
        copyfile(path, copy)
        return
    with open(copy, "wb") as file:
        file.truncate(size)  # so that its end is where it was


def _whole(path: Any, beside: int | None) -> str:
    """Of a path that may be relative to an open directory, as those are by which a folder is deleted."""
    found = os.fsdecode(path)
    if isinstance(beside, int) and beside >= 0 and not os.path.isabs(found):
        with contextlib.suppress(OSError):
            found = os.path.join(os.readlink(f"/proc/self/fd/{beside}"), found)
    return os.path.abspath(found)


def _all_open() -> Iterator[tuple[int, str]]:
    """Each file descriptor and what it is: a number alone may be used again by then."""
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # gone: it was the listing's own
            yield int(name), os.readlink(f"/proc/self/fd/{name}")


def _stays_here(args: tuple[Any, ...]) -> bool:
    """The workers of a DataLoader hand tensors over by Unix sockets."""
    return isinstance(args[0], socket.socket) and args[0].family == socket.AF_UNIX


def _leads_out(fd: int) -> bool:
    try:
        mode, flags = os.fstat(fd).st_mode, fcntl.fcntl(fd, fcntl.F_GETFL)
        is_memory = os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:")  # shipped variables
    except OSError:
        return False  # gone: it was the listing's own
    if stat.S_ISREG(mode):
        return bool(flags & (os.O_WRONLY | os.O_RDWR)) and not is_memory
    return not (stat.S_ISCHR(mode) or stat.S_ISDIR(mode))


# The third: Landlock, by its system calls, since no library of ours knows it

_RULESET, _RULE, _RESTRICT = 444, 445, 446  # the same on every architecture of Linux
_PATH_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE, _TRUNCATE = 1 << 1, 1 << 14
_FIRST_VERSION = sum(1 << bit for bit in (1, *range(4, 13)))  # writing, removing and making; not reading


def landlock(*free: str) -> bool:
    """Take from this process, for good, the right to write outside of these folders; whether the kernel could."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_RULESET, None, ctypes.c_size_t(0), 1)
    if version < 3:  # before that, a file could still be truncated
        return False
    handled = _FIRST_VERSION | _TRUNCATE
    ruleset = libc.syscall(_RULESET, struct.pack("Q", handled), ctypes.c_size_t(8), 0)
    if ruleset < 0:
        return False
    with contextlib.ExitStack() as opened:
        opened.callback(os.close, ruleset)
        for path, rights in (*((one, handled) for one in free), ("/dev", _WRITE_FILE | _TRUNCATE)):
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            opened.callback(os.close, fd)
            rule = struct.pack("=Qi", rights, fd)
            if libc.syscall(_RULE, ruleset, _PATH_BENEATH, rule, 0):
                return False
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, ruleset, 0) == 0)
