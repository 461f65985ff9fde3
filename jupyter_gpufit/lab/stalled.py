"""Who could start and, for long, does not: its process is stopped, or never meant to. Others go on without it.

Each waiter measures that for itself, with its own clock. That they may differ for a moment harms nobody: it only
decides for whom room is kept, and never who holds what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from .record import Ticket

PASSED_AFTER = 10.0  # seconds; to ask a driver and take a memory takes an honest process less


@dataclass
class Passing:
    """Remembers since when each ticket could start, and which were passed."""

    passed: set[str] = field(default_factory=set)
    _since: dict[str, tuple[int, float]] = field(default_factory=dict)  # by ticket: its user, and when it could start

    def note(self, starting: Sequence[Ticket], now: float) -> None:
        """These could start now, and no others."""
        self._since = {ticket.id: self._since.get(ticket.id, (ticket.uid, now)) for ticket in starting}

    def update(self, queue: Sequence[Ticket], now: float) -> set[str]:
        """The tickets of the queue that are passed by now."""
        self.passed &= {ticket.id for ticket in queue}
        self.passed |= {id for id, seconds in self._left(now).items() if seconds <= 0}
        return self.passed

    def due(self, now: float) -> float | None:
        """Seconds until the next one is passed; None while there is none to wait for."""
        return min(self._left(now).values(), default=None)

    def _left(self, now: float) -> dict[str, float]:
        # Half as long for each one more of a user: a hundred of them must not hold us up a hundred times.
        before = Counter(int(id.split(".")[1]) for id in self.passed)
        return {
            id: since + PASSED_AFTER / 2 ** before[uid] - now
            for id, (uid, since) in self._since.items()
            if id not in self.passed
        }
