"""What each rank has alone, read by any other one at any time: of what is in parts, the other parts.

What a rank offers changes between two meetings of all alone: in an optimizer's step, and of gradients and parameters
(fit/several/shards.py) in an operation that writes them. So whoever is in none may read, whatever the others do
meanwhile: a thread of theirs answers.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from ...errors import PartGone

_ASKED = struct.Struct("<Q56s")  # a number, and a name
_BYTES = struct.Struct("<q")  # that follow; less than 0: there is nothing of that name
Find = Callable[[int, str], torch.Tensor | None]


def reading_ends(size: int, patience: float | None = None) -> list[ReadingEnds]:
    """The ends of each rank, which waits so many seconds; to be made before they part."""
    asks: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    answers: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    for one in range(size):
        for other in range(size):
            if one != other:
                asks[one][other], answers[other][one] = socket.socketpair()
    return [ReadingEnds(mine, theirs, patience) for mine, theirs in zip(asks, answers, strict=True)]


class ReadingEnds:
    """One rank's."""

    def __init__(
        self, asks: dict[int, socket.socket], answers: dict[int, socket.socket], patience: float | None = None
    ) -> None:
        self._asks, self._answers = asks, answers
        for end in asks.values():
            end.settimeout(patience)  # for each piece
        self._midway: set[int] = set()  # ranks of whom an answer was not read to its end

    @property
    def descriptors(self) -> list[int]:
        return [end.fileno() for end in (*self._asks.values(), *self._answers.values())]

    def close(self) -> None:
        for end in (*self._asks.values(), *self._answers.values()):
            end.close()

    def offer(self, find: Find) -> None:
        """Answer from now on, in a thread of its own."""
        threading.Thread(target=self._serve, args=(find,), name="gpufit-rank-read", daemon=True).start()

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        """Fill `out`, on the host and contiguous, with what that rank has. Raises PartGone."""
        if rank in self._midway:
            raise PartGone(rank)
        end = self._asks[rank]
        self._midway.add(rank)
        try:
            end.sendall(_ASKED.pack(number, name.encode()))
            (count,) = _BYTES.unpack(_exactly(end, memoryview(bytearray(_BYTES.size))))
            if count < 0:
                self._midway.discard(rank)
            if count != out.nbytes:
                raise PartGone(rank)
            _exactly(end, _bytes_of(out))
        except OSError as error:
            raise PartGone(rank) from error
        self._midway.discard(rank)

    def _serve(self, find: Find) -> None:
        poll, by_fd = select.poll(), {end.fileno(): end for end in self._answers.values()}
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        while by_fd:
            for fd, _ in poll.poll():
                try:
                    self._answer(by_fd[fd], find)
                except OSError:  # it has ended
                    poll.unregister(fd)
                    del by_fd[fd]

    def _answer(self, end: socket.socket, find: Find) -> None:
        number, name = _ASKED.unpack(_exactly(end, memoryview(bytearray(_ASKED.size))))
        there: torch.Tensor | None = None
        with suppress(Exception):  # it has none of it; who asks shall hear so, whatever the reason
            with torch.no_grad(), torch._C.DisableTorchFunction():
                found = find(number, name.rstrip(b"\0").decode())
                there = None if found is None else found.detach().cpu().contiguous()
        end.sendall(_BYTES.pack(-1 if there is None else there.nbytes))
        if there is not None:
            end.sendall(_bytes_of(there))


def _bytes_of(t: torch.Tensor) -> memoryview:
    made: Any = t.detach().view(-1).view(torch.uint8).numpy()
    return memoryview(made)


def _exactly(end: socket.socket, into: memoryview) -> memoryview:
    rest = into
    while rest:
        count = end.recv_into(rest)
        if not count:
            raise ConnectionResetError("it has ended")
        rest = rest[count:]
    return into
