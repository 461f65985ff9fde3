"""What stands in place of sys.stdout and sys.stderr, and of fds 1 and 2, while output is captured."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import io
import os
import select
import termios
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TextIO

from ..units import KiB, MiB
from .texts import Name

PIPE = 1 * MiB  # the most that an ordinary user may ask for


class CapturedStream(io.TextIOBase):
    """A sys.stdout whose texts go to `take`; where that declines (in a forked child), straight to the fd."""

    encoding = "utf-8"
    errors = "backslashreplace"
    mode = "w"
    line_buffering = True

    def __init__(self, name: Name, fd: int, *, take: Callable[[str], bool], catch_up: Callable[[], None]) -> None:
        self.name = f"<{name}>"
        self.buffer = _Buffer(fd, catch_up)
        self._stream = name  # by which a checkpoint finds it again
        self._fd = fd
        self._take = take

    def write(self, text: str, /) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if text and not self._take(text):
            _write_whole(self._fd, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is held back here; emitting at every print's flush would cost half a minute for 20,000 of them."""

    def close(self) -> None:
        """Stay open: whoever closes sys.stdout would silence the rest of the cell."""

    def reconfigure(self, **_: Any) -> None:
        """Accept what TextIOWrapper accepts; the encoding is UTF-8 already."""


class _Buffer(io.BufferedIOBase):
    """Bytes go through the fd, where C's go, and are decoded with them."""

    def __init__(self, fd: int, catch_up: Callable[[], None]) -> None:
        self._fd = fd
        self._catch_up = catch_up

    def write(self, data: Any, /) -> int:
        self._catch_up()  # what stands in the other stream's pipe came before
        return _write_whole(self._fd, data)

    def fileno(self) -> int:
        return self._fd

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Nothing is held back here."""

    def close(self) -> None:
        """Stay open, as the stream does."""


def _write_whole(fd: int, data: Any) -> int:
    rest = memoryview(data).cast("B")
    count = len(rest)
    while rest:
        rest = rest[os.write(fd, rest) :]
    return count


class Tap:
    """A pipe in place of an fd."""

    def __init__(self, name: Name, fd: int) -> None:
        self.name = name
        self.fd = fd
        self.saved = os.dup(fd)
        # The writing end is kept, so that a cell that closes fd 1 does not make the pipe look finished.
        self.reading, self._writing = os.pipe()
        os.set_blocking(self.reading, False)
        with contextlib.suppress(OSError):  # beyond the user's share of pipe memory it stays at 64 KiB
            fcntl.fcntl(self._writing, fcntl.F_SETPIPE_SZ, PIPE)
        os.dup2(self._writing, fd)

    def read(self) -> bytes:
        """What stands in the pipe now and no more: a child that writes without end must not hold up a print."""
        count = array("i", [0])
        fcntl.ioctl(self.reading, termios.FIONREAD, count)
        try:
            return os.read(self.reading, count[0])
        except BlockingIOError:  # a signal handler's print came first
            return b""

    def original(self) -> TextIO:
        """A text file that leads where the fd led before."""
        return open(os.dup(self.saved), "w", buffering=1, errors="backslashreplace")

    def restore(self) -> None:
        os.dup2(self.saved, self.fd)

    def close(self) -> None:
        for fd in (self.saved, self.reading, self._writing):
            os.close(fd)


class _PollFd(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))


def readiness(fds: Sequence[int]) -> Callable[[], int]:
    """Asks how many of these can be read; select.poll gives up the GIL to ask, and a busy thread keeps it for 5 ms."""
    poll = ctypes.PyDLL(None).poll
    asked = (_PollFd * len(fds))(*(_PollFd(fd, select.POLLIN) for fd in fds))
    return partial(poll, asked, len(fds), 0)


def push_out(*streams: TextIO) -> None:
    """Write what C's stdio and these streams hold back."""
    for stream in streams:
        with contextlib.suppress(OSError, ValueError):  # closed, or its disk is full
            stream.flush()
    libc, stdout = _stdio()
    # Not fflush(NULL): it waits for every file, also for a stdin on which another thread is waiting for input.
    libc.fflush(stdout)


def make_c_line_buffered() -> None:
    """Let printf write each line at once, as it does in a terminal, though fd 1 is a pipe."""
    line_buffered = 1  # _IOLBF in both glibc and musl
    libc, stdout = _stdio()
    libc.setvbuf(stdout, _c_buffer(), line_buffered, ctypes.c_size_t(_C_BUFFER))


_C_BUFFER = 8 * KiB


@lru_cache(maxsize=1)
def _c_buffer() -> ctypes.c_void_p:
    # Under PYTHONUNBUFFERED the stream's own buffer has one byte. Never freed: C flushes after Python has gone.
    libc, _ = _stdio()
    libc.malloc.restype = ctypes.c_void_p
    return ctypes.c_void_p(libc.malloc(ctypes.c_size_t(_C_BUFFER)))


@lru_cache(maxsize=1)
def _stdio() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    libc = ctypes.CDLL(None)
    return libc, ctypes.c_void_p.in_dll(libc, "stdout")
