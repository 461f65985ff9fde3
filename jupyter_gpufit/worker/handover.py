"""How a job is given to a process that is already running: one message with descriptors over a socket pair.

A cold start and a spare worker go the same way; the spare has merely imported torch by the time the message comes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

LENGTH = 8  # bytes, big-endian, before the message
MOST_DESCRIPTORS = 64


@dataclass(frozen=True, kw_only=True)
class Handover:
    """What the worker takes over from the kernel beside the job's files."""

    job_root: str
    cwd: str
    path: list[str]  # sys.path of the kernel, so that the notebook's modules are found
    env: Mapping[str, str]  # os.environ of the kernel, which may have changed since a spare was started
    cell_number: int  # the kernel's execution count, for tracebacks
    lock: int = -1  # descriptor of the job's lock, held; set by `receive`
    memory: list[int] = field(default_factory=list)  # descriptors of the variables' tensor bytes; set by `receive`


def send(channel: socket.socket, handover: Handover) -> None:
    """Give the job away; the descriptors remain open here too and are the caller's to close."""
    body = json.dumps(asdict(handover)).encode()
    socket.send_fds(channel, [len(body).to_bytes(LENGTH, "big")], [handover.lock, *handover.memory])
    channel.sendall(body)


def receive(channel: socket.socket) -> Handover | None:
    """Wait for a job; None when the kernel went away without giving one."""
    head, descriptors, _, _ = socket.recv_fds(channel, LENGTH, MOST_DESCRIPTORS)
    if len(head) < LENGTH:
        return None
    for fd in descriptors:
        os.set_inheritable(fd, False)
    body = _exactly(channel, int.from_bytes(head, "big"))
    if body is None:
        return None
    record = json.loads(body)
    return Handover(**record | {"lock": descriptors[0], "memory": descriptors[1:]})


def _exactly(channel: socket.socket, count: int) -> bytes | None:
    parts = []
    while count:
        part = channel.recv(count)
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
