"""When will it be a waiting job's turn? Pure: a range, or why none can be said.

The queue is played twice. In the best world each holder ends as early as it may: one that does not say when could end
this moment, and so could a process outside the lab. In the worst one each ends as late as it expects, and one that does
not say when never does. A job starts somewhere between the two. Nobody knows how long a job will run that has not yet
begun: those behind it learn how early their turn may come at the earliest, and after whom.

Not foreseen: who enters the queue later and comes first by what the users have used, and claims that become smaller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush

from .ends import End
from .foreseen import Foreseen
from .place import Placement, Space, could_use
from .policy import Policy
from .reasons import whose
from .record import Claim, Hold, Ticket
from .turn import Go, everyones_turn, over_limit

MOST = 20  # tickets that are foreseen: each costs all that stand behind it a look
TOO_MANY = "too many wait before it"


def foresee(
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    ends: Mapping[str, End],
    policy: Policy,
    *,
    now: float,
    reader: int,
) -> list[Foreseen | None]:
    """When each ticket of the queue may start, in its order; None: it is about to. `ends` by the claim's id."""
    known = {id: end for id, end in ends.items() if end.latest > now}
    near = queue[:MOST]
    best = _World(
        near,
        [replace(space, foreign=0) for space in spaces],
        claims,
        {claim.id: max(now, known[claim.id].earliest) if claim.id in known else now for claim in claims},
        policy,
        now,
        lasts=0.0,
    )
    worst = _World(near, spaces, claims, {id: end.latest for id, end in known.items()}, policy, now, lasts=None)
    found: list[Foreseen | None] = []
    for ticket in near:
        early, late = best.starts.get(ticket.id), worst.starts.get(ticket.id)
        if late == now:
            found.append(None)
            continue
        why = "" if late is not None else _why_not(ticket, worst, ends, reader)
        times = [one for one in (early, late) if one is not None]
        found.append(Foreseen(min(times, default=now), max(times) if late is not None else None, why))
    return [*found, *[Foreseen(now, None, TOO_MANY)] * (len(queue) - len(near))]


class _World:
    """The queue played to where nothing more is known: who starts when."""

    def __init__(
        self,
        queue: Sequence[Ticket],
        spaces: Sequence[Space],
        claims: Sequence[Claim],
        ends: Mapping[str, float],
        policy: Policy,
        now: float,
        *,
        lasts: float | None,  # seconds that a job runs that has not begun; None: for ever
    ) -> None:
        self.starts: dict[str, float] = {}  # by the ticket's id; seconds since 1970
        self.spaces, self.policy = spaces, policy
        self.held = {claim.id: claim for claim in claims}
        self.waiting = list(queue)
        coming = [(ends[claim.id], claim.id) for claim in claims if claim.id in ends]
        heapify(coming)
        while True:
            for id in self._start(now):
                if lasts is not None:
                    heappush(coming, (now + lasts, id))
            if not self.waiting or not coming:
                return
            now = max(now, coming[0][0])
            while coming and coming[0][0] <= now:
                del self.held[heappop(coming)[1]]

    def _start(self, now: float) -> list[str]:
        """Who can start now does; their ids."""
        decisions = everyones_turn(self.waiting, self.spaces, list(self.held.values()), self.policy)
        going = [
            (ticket, one.placement) for ticket, one in zip(self.waiting, decisions, strict=True) if isinstance(one, Go)
        ]
        for ticket, placement in going:
            self.starts[ticket.id] = now
            self.held[ticket.id] = _as_claim(ticket, placement)
        self.waiting = [ticket for ticket in self.waiting if ticket.id not in self.starts]
        return [ticket.id for ticket, _ in going]


def _as_claim(ticket: Ticket, placement: Placement) -> Claim:
    hold = Hold(
        devices=tuple(device.uuid for device in placement.devices),
        bytes=placement.bytes,
        alone=placement.alone,
        share=placement.share,
    )
    return Claim(**vars(ticket), hold=hold)


def _why_not(ticket: Ticket, world: _World, ends: Mapping[str, End], reader: int) -> str:
    """Who it is that nobody knows the end of."""
    useful = {space.device.uuid for space in could_use(ticket.request, world.spaces)}
    claims = list(world.held.values())
    if limit := over_limit(ticket, claims, world.policy.of(ticket.uid)):
        return limit
    before = world.waiting[: world.waiting.index(ticket)]
    here = [claim for claim in claims if claim.hold.among(useful)]
    # The running first: their end is what all others wait for.
    for claim in sorted(here, key=lambda claim: claim.id in world.starts):
        who = f"{whose(claim.uid, reader)} {claim.request.name}"
        if claim.id in world.starts:
            return f"{who} comes first and has not begun"
        return f"{who} {'runs longer than it expected' if claim.id in ends else 'does not say how long it runs'}"
    if before:
        return f"{whose(before[0].uid, reader)} {before[0].request.name} comes first and has not begun"
    return "processes outside the lab do not say when they end"
