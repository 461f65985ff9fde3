"""How the ranks of one training meet: a socket pair for each two of them, made before they are forked.

A rank that has ended closes its ends, however it ended, and so the others know at once. Nothing listens, so nobody else
can join in. Only numbers and shapes go this way; the tensors lie in memory that the ranks share (shared.py).
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Mapping

LONGEST = 4096  # bytes of one message


class RankGone(Exception):
    """A rank has closed its ends."""

    def __init__(self, rank: int) -> None:
        super().__init__(rank)
        self.rank = rank


class RankLate(RankGone):
    """A rank did not come for too long."""

    def __init__(self, rank: int, seconds: float = 0.0) -> None:
        super().__init__(rank)
        self.seconds = seconds


def linked(size: int) -> list[Links]:
    """The ends of each rank; to be made before they part."""
    ends: list[dict[int, socket.socket]] = [{} for _ in range(size)]
    for one in range(size):
        for other in range(one):
            ends[one][other], ends[other][one] = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return [Links(rank, mine) for rank, mine in enumerate(ends)]


class Links:
    """One rank's ends, by the number of the rank at the other one."""

    def __init__(self, rank: int, ends: Mapping[int, socket.socket]) -> None:
        self.rank = rank
        self._ends = dict(ends)
        self._poll = select.poll()
        self._by_fd = {end.fileno(): other for other, end in ends.items()}
        for end in ends.values():
            end.setblocking(False)

    @property
    def size(self) -> int:
        return len(self._ends) + 1

    @property
    def descriptors(self) -> list[int]:
        return [end.fileno() for end in self._ends.values()]

    def exchange(self, message: bytes, patience: float | None = None) -> dict[int, bytes]:
        """Tell all others; what each has told, when all have come. Raises RankGone, RankLate."""
        for other in self._ends:
            self.tell(other, message)
        return self.hear(list(self._ends), patience)

    def tell(self, other: int, message: bytes) -> None:
        try:
            self._ends[other].send(message)  # at most two are on their way: there is always room
        except OSError as error:
            raise RankGone(other) from error

    def hear(self, of: list[int], patience: float | None = None) -> dict[int, bytes]:
        """The next message of each of these."""
        until = None if patience is None else time.monotonic() + patience
        heard: dict[int, bytes] = {}
        for other in of:  # most often it is there already, or will be in a moment
            self._poll.register(self._ends[other], select.POLLIN)
        try:
            while len(heard) < len(of):
                left = None if until is None else max(0.0, until - time.monotonic()) * 1000
                ready = self._poll.poll(left)
                if not ready:
                    raise RankLate(next(other for other in of if other not in heard), patience or 0.0)
                for fd, _ in ready:
                    other = self._by_fd[fd]
                    heard[other] = self._read(other)
                    self._poll.unregister(fd)
        finally:
            for other in of:
                if other not in heard:
                    self._poll.unregister(self._ends[other])
        return heard

    def _read(self, other: int) -> bytes:
        try:
            message = self._ends[other].recv(LONGEST)
        except ConnectionResetError:
            message = b""
        if not message:
            raise RankGone(other)
        return message

    def close(self) -> None:
        """Also of those of another rank, and of a process that a rank forks: who has them keeps a dead one alive."""
        for end in self._ends.values():
            end.close()
