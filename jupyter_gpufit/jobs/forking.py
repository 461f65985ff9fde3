"""What a kernel and its spare say to each other: a worker is wanted, it is there, it has ended.

Each message is whole (the socket keeps their bounds), and numbered by the worker it is about.
"""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass

MOST = 4096  # bytes of a message


@dataclass(frozen=True)
class Wanted:
    """By the kernel: a worker, with descriptors of its channel and of what it says before it has a job."""

    number: int
    score: str = ""  # what it is to be for the system where memory runs out; empty: as the spare
    ends: bool = False  # it is not wanted any more


@dataclass(frozen=True)
class News:
    """By the spare: a worker is there; and, once it has a code, how it ended."""

    number: int
    pid: int
    code: int | None = None


def ask(channel: socket.socket, wanted: Wanted, *descriptors: int) -> None:
    socket.send_fds(channel, [json.dumps(asdict(wanted)).encode()], descriptors)


def asked(channel: socket.socket) -> tuple[Wanted, list[int]] | None:
    """The next wish; None when there are no more."""
    message, descriptors, _, _ = socket.recv_fds(channel, MOST, 2)
    for fd in descriptors:
        os.set_inheritable(fd, False)
    return (Wanted(**json.loads(message)), descriptors) if message else None


def tell(channel: socket.socket, news: News) -> None:
    channel.send(json.dumps(asdict(news)).encode())


def told(channel: socket.socket) -> News | None:
    """What is next; None when the spare has ended."""
    message = channel.recv(MOST)
    return News(**json.loads(message)) if message else None
