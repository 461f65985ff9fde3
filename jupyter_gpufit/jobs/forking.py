"""What a kernel and its spare say to each other: a worker is wanted, it is there, it has ended; what to import ahead.

Each message is whole (the socket keeps their bounds), and numbered by the worker it is about.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from typing import IO

from ..system.files import nameless

MOST = 4096  # bytes of a message


@dataclass(frozen=True)
class Wanted:
    """By the kernel: a worker, with descriptors of its channel and of what it says before it has a job."""

    number: int
    score: str = ""  # what it is to be for the system where memory runs out; empty: as the spare
    ends: bool = False  # it is not wanted any more
    needs: tuple[str, ...] = ()  # packages that it will import at once: better here, for all, if that is yet to be done
    imports: bool = False  # no worker, but modules, which a descriptor has: their names are many


@dataclass(frozen=True)
class News:
    """By the spare: a worker is there; and, once it has a code, how it ended."""

    number: int
    pid: int
    code: int | None = None
    spoiled_by: str = ""  # a package that must not be imported ahead: whoever forks from now on begins anew


def ask(channel: socket.socket, wanted: Wanted, *descriptors: int, waits: bool = True) -> None:
    """`waits`: until there is room for the message; otherwise an OSError tells that there is none."""
    flags = 0 if waits else socket.MSG_DONTWAIT
    socket.send_fds(channel, [json.dumps(asdict(wanted)).encode()], descriptors, flags)


def asked(channel: socket.socket) -> tuple[Wanted, list[int]] | None:
    """The next wish; None when there are no more."""
    message, descriptors, _, _ = socket.recv_fds(channel, MOST, 2)
    for fd in descriptors:
        os.set_inheritable(fd, False)
    return (Wanted(**json.loads(message)), descriptors) if message else None


@dataclass(frozen=True)
class KernelModules:
    """By the notebook, and what its modules may ask of a device when they are imported."""

    modules: tuple[str, ...]  # names, in their order
    capability: tuple[int, int] | None = None  # of every device here; None: they differ, or nobody has looked
    variables: tuple[str, ...] = ()  # of the environment, which these modules have set: so they do elsewhere

    def to_file(self) -> IO[bytes]:
        file = nameless()
        file.write(json.dumps(asdict(self)).encode())
        file.flush()
        return file

    @classmethod
    def from_file(cls, fd: int) -> KernelModules:
        """What came with a wish; closes it."""
        with open(fd, "rb") as file:
            file.seek(0)
            found = json.load(file)
        capability = tuple(found["capability"]) if found["capability"] else None
        return cls(tuple(found["modules"]), capability, tuple(found["variables"]))


def tell(channel: socket.socket, news: News) -> None:
    channel.send(json.dumps(asdict(news)).encode())


def told(channel: socket.socket) -> News | None:
    """What is next; None when the spare has ended."""
    message = channel.recv(MOST)
    return News(**json.loads(message)) if message else None
