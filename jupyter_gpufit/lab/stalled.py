"""Who could start and does not: its process is stopped, or never meant to. Others go on without it.

A turn costs its user as long as others wait for it, and for the room that was kept for a job that then let it go. So
each user has one grace, over all of their tickets, which comes back slowly: whoever has used it up still starts when
it is their turn, but nobody waits for them and no room is kept.

Each waiter measures that for itself, with its own clock. That they may differ for a moment harms nobody: it only
decides for whom room is kept, and never who holds what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .record import Claim, Request, Ticket

PASSED_AFTER = 10.0  # seconds; to ask a driver and take a memory takes an honest process less
FORGIVEN = 60.0  # seconds in which a user is forgiven one
MOST_OWED = 60.0  # seconds, so that all is forgiven after an hour


_Key = tuple[int, Request]  # a claim asks what its ticket asked


def _key(ticket: Ticket) -> _Key:
    return ticket.uid, ticket.request


@dataclass
class _Turn:
    """What a ticket before us has cost us so far."""

    ticket: Ticket
    starting: float = 0.0  # seconds in which it could start
    kept: float = 0.0  # seconds in which room that we could use was kept for it


@dataclass
class Passing:
    """Remembers what each user owes for turns that were not taken, and which tickets were passed."""

    passed: set[str] = field(default_factory=set)  # for good: each has had its turn for too long
    owed: dict[int, float] = field(default_factory=dict)  # seconds, by user
    _turns: dict[str, _Turn] = field(default_factory=dict)
    _starting: set[str] = field(default_factory=set)
    _kept: set[str] = field(default_factory=set)
    _known: set[str] | None = None  # claims at the last look; None: there was none yet
    _fresh: dict[str, _Key] = field(default_factory=dict)  # claims that began since, and no ticket is gone for them yet
    _refunds: dict[str, _Turn] = field(default_factory=dict)  # by claim
    _now: float | None = None

    def remember(self, owed: Mapping[int, float]) -> None:
        """What users owe from before, by another job's telling."""
        for uid, seconds in owed.items():
            self.owed[uid] = min(MOST_OWED, max(self.owed.get(uid, 0.0), seconds))

    def note(self, starting: Iterable[Ticket], now: float, kept: Iterable[Ticket] = ()) -> None:
        """These could start now, and no others; and for those room is kept that we could use."""
        self._pass_time(now)
        starting, kept = list(starting), list(kept)
        self._starting, self._kept = {ticket.id for ticket in starting}, {ticket.id for ticket in kept}
        for ticket in (*starting, *kept):
            self._turns.setdefault(ticket.id, _Turn(ticket))

    def update(self, queue: Sequence[Ticket], now: float, claims: Iterable[Claim] = ()) -> set[str]:
        """The tickets of the queue that are passed by now; who let a turn go is charged, and who took it is not."""
        self._pass_time(now)
        self._settle(queue, claims)
        for id in self._starting:
            if id in self._turns and self._is_passed(self._turns[id].ticket):
                self.passed.add(id)
        return {ticket.id for ticket in queue if self._is_passed(ticket)}

    def due(self, now: float) -> float | None:
        """Seconds until the next one is passed; None while there is none to wait for."""
        self._pass_time(now)
        return min((PASSED_AFTER - self.owed.get(uid, 0.0) for uid in self._hold_us_up()), default=None)

    def debtors(self) -> dict[int, float]:
        """The users for whom nobody waits any longer, and what they owe."""
        return {uid: seconds for uid, seconds in self.owed.items() if seconds >= PASSED_AFTER}

    def _is_passed(self, ticket: Ticket) -> bool:
        return ticket.id in self.passed or self.owed.get(ticket.uid, 0.0) >= PASSED_AFTER

    def _hold_us_up(self) -> set[int]:
        return {self._turns[id].ticket.uid for id in self._starting - self.passed if id in self._turns}

    def _pass_time(self, now: float) -> None:
        seconds = 0.0 if self._now is None else max(0.0, now - self._now)
        self._now = now
        holding_up = self._hold_us_up()
        for uid in holding_up:  # once, however many of their tickets could start
            self._charge(uid, seconds)
        for uid in self.owed.keys() - holding_up:
            self._charge(uid, -seconds / FORGIVEN)
        for turn in self._refunds.values():  # for as long as the claim lasts: one for an instant gives nothing back
            back = min(seconds, turn.starting)
            turn.starting -= back
            self._charge(turn.ticket.uid, -back)
        for id, turn in self._turns.items():
            turn.starting += seconds if id in self._starting - self.passed else 0.0
            turn.kept += seconds if id in self._kept else 0.0

    def _settle(self, queue: Sequence[Ticket], claims: Iterable[Claim]) -> None:
        """Charge those who left the queue for the room that was kept for them, unless a new claim is theirs."""
        there, live = {ticket.id for ticket in queue}, {claim.id: claim for claim in claims}
        self.passed &= there
        self._refunds = {id: turn for id, turn in self._refunds.items() if id in live}
        began = live.keys() - (live.keys() if self._known is None else self._known)
        self._known = set(live)
        self._fresh = {id: _key(live[id]) for id in live if id in began or id in self._fresh}
        for id in self._turns.keys() - there:
            turn = self._turns.pop(id)
            claim = next((claim for claim, key in self._fresh.items() if key == _key(turn.ticket)), None)
            if claim is None:
                self._charge(turn.ticket.uid, turn.kept)
            else:
                del self._fresh[claim]
                self._refunds[claim] = turn

    def _charge(self, uid: int, seconds: float) -> None:
        owed = min(MOST_OWED, self.owed.get(uid, 0.0) + seconds)
        if owed > 0:
            self.owed[uid] = owed
        else:
            self.owed.pop(uid, None)
