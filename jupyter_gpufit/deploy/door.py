"""Who may call: a socket of one user, a client for each connection to it, and the memory that a client brings.

All of it runs in the desk's thread, by the desk's selector.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import traceback
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Protocol

from ..calls.protocol import LARGEST, CallReply, encode
from .standing import StandingInstance

BACKLOG = 128  # connections that the kernel keeps for us while we are busy


@dataclass(eq=False)
class Caller:
    socket: socket.socket
    number: int  # of its memory, as the instances know it
    region: int = -1  # its descriptor
    known_to: StandingInstance | None = None  # who has that memory mapped
    waits: bool = False  # for an answer
    sent: float = inf  # when it got one, if it is looked at how long that was on its way


class Behind(Protocol):
    """Who is told what comes in."""

    def hear(self, client: Caller, packet: bytes) -> None: ...

    def forget_region(self, client: Caller) -> None:
        """It has brought another one, or is gone."""

    def forget(self, client: Caller) -> None:
        """It is gone. What of it runs is run to its end, and answered to nobody."""


class Door:
    def __init__(self, selector: selectors.BaseSelector, behind: Behind) -> None:
        self.clients: dict[int, Caller] = {}
        self._selector = selector
        self._behind = behind
        self._listener: socket.socket | None = None
        self._shut = False  # nobody is let in, for want of descriptors
        self._numbers = 0

    def open(self, path: Path) -> None:
        """Listen there, for this user alone."""
        path.unlink(missing_ok=True)  # left by an earlier epoch of this very job, whose lock we hold
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        mask = os.umask(0o177)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(mask)
        self._listener.listen(BACKLOG)
        self._selector.register(self._listener, selectors.EVENT_READ, self._let_in)

    def close(self) -> None:
        for client in list(self.clients.values()):
            self._lose(client)
        if self._listener is not None:
            self._listener.close()

    def reply(self, client: Caller, reply: CallReply) -> None:
        self.send(client, encode(reply))

    def send(self, client: Caller, packet: bytes) -> None:
        try:
            client.socket.send(packet)
        except OSError:  # it is gone, or does not read what it asked for
            self._lose(client)

    def _let_in(self) -> None:
        assert self._listener is not None
        try:
            found, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError:  # no descriptor is free: whoever comes waits for one
            self._shut = True
            self._selector.unregister(self._listener)
            return
        if not _is_ours(found):
            found.close()
            return
        found.setblocking(False)
        self._numbers += 1
        client = self.clients[self._numbers] = Caller(found, self._numbers)
        self._selector.register(found, selectors.EVENT_READ, lambda: self._hear(client))

    def _lose(self, client: Caller) -> None:
        if self.clients.pop(client.number, None) is None:
            return
        self._behind.forget(client)
        self._selector.unregister(client.socket)
        client.socket.close()
        self._forget_region(client)
        if self._shut and self._listener is not None:  # there is room again
            self._shut = False
            self._selector.register(self._listener, selectors.EVENT_READ, self._let_in)

    def _forget_region(self, client: Caller) -> None:
        if client.region >= 0:
            os.close(client.region)
            client.region = -1
        self._behind.forget_region(client)

    def _hear(self, client: Caller) -> None:
        try:
            packet, fds, flags, _ = socket.recv_fds(client.socket, LARGEST, 1)
        except BlockingIOError:
            return
        except OSError:
            packet, fds, flags = b"", [], 0
        if not packet or client.waits or flags & socket.MSG_CTRUNC:  # one call at a time
            for fd in fds:
                os.close(fd)
            self._lose(client)
            return
        if fds:
            self._forget_region(client)
            client.region = fds[0]
            os.set_inheritable(fds[0], False)
        try:
            self._behind.hear(client, packet)
        except Exception:  # a defect of ours, which must not end the model for everybody
            traceback.print_exc()
            self._lose(client)


def _is_ours(client: socket.socket) -> bool:
    """The socket is 0600 already; root may connect, and nobody else even when modes are changed later."""
    credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return struct.unpack("3i", credentials)[1] in (os.getuid(), 0)
