"""When will it be a waiting job's turn? Pure: a range, or why none can be said.

The queue is played twice. In the best world each holder ends as early as it may: one that does not say when could end
this moment, and so could a process outside the lab. In the worst one each ends as late as it expects, and one that does
not say when never does. A job starts somewhere between the two. Nobody knows how long a job will run that has not yet
begun: those behind it learn how early their turn may come at the earliest, and after whom.

With turns a holder leaves when its own is over, and so does who starts now, as if all that wait could be saved; those
who leave queue again. In the worst world a save takes its time. Whose turn is over is asked as the holders ask it.

Not foreseen: who enters the queue later and comes first by what the users have used, claims that become smaller, and
turns in a lab in which many hold and many wait, for what it would cost everybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from .ends import End
from .foreseen import Foreseen
from .order import fair_order
from .place import Placement, Space, could_use
from .policy import Policy
from .quanta import Holding, ends_at_the_earliest, turns_over
from .reasons import whose
from .record import Claim, Hold, Ticket
from .standing import Standing
from .turn import Go, everyones_turn, over_limit

MOST = 20  # tickets that are foreseen: each costs all that stand behind it a look
TOO_MANY = "too many wait before it"
SAVE = 30.0  # seconds that a save may take, in the worst world
FAR = 30  # looks at whose turn is over, after which nothing more is foreseen
MOST_PAIRS = (
    200  # of tickets and claims for which turns are foreseen: a look costs as much as there are, some 50 ms then
)
STEP = 60.0  # seconds between two of them, where nothing else happens


@dataclass(frozen=True)
class TurnFacts:
    """What is to be known of turns: who has used what, and how the holders stand."""

    used: Mapping[int, float]  # device-seconds by uid, with running claims and their penalties
    standings: Mapping[str, Standing] = field(default_factory=dict)  # by claim
    stopped: frozenset[str] = frozenset()


def foresee(
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    ends: Mapping[str, End],
    policy: Policy,
    *,
    now: float,
    reader: int,
    turns: TurnFacts | None = None,
) -> list[Foreseen | None]:
    """When each ticket of the queue may start, in its order; None: it is about to. `ends` by the claim's id."""
    known = {id: end for id, end in ends.items() if end.latest > now}
    near = queue[:MOST]
    turns = turns if policy.takes_turns and len(near) * len(claims) <= MOST_PAIRS else None
    best = _World(
        near,
        [replace(space, foreign=0) for space in spaces],
        claims,
        {claim.id: max(now, known[claim.id].earliest) if claim.id in known else now for claim in claims},
        policy,
        now,
        lasts=0.0,
        turns=turns,
    )
    latest = {id: end.latest for id, end in known.items()}
    worst = _World(near, spaces, claims, latest, policy, now, lasts=None, turns=turns, save=SAVE)
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
        turns: TurnFacts | None = None,
        save: float = 0.0,  # seconds
    ) -> None:
        self.starts: dict[str, float] = {}  # by the ticket's id; seconds since 1970
        self.spaces, self.policy, self.turns, self.save = spaces, policy, turns, save
        self.held = {claim.id: claim for claim in claims}
        self.waiting = list(queue)
        self.coming = [(ends[claim.id], claim.id, False) for claim in claims if claim.id in ends]
        heapify(self.coming)
        self._begin_turns(now)
        wanted, looks = {ticket.id for ticket in queue}, 0
        while True:
            for id in self._start(now):
                if lasts is not None:
                    heappush(self.coming, (now + lasts, id, False))
            if wanted <= self.starts.keys() or looks > FAR:
                return
            looks += self.turns is not None
            moments = [*self._look(now), *(moment for moment, _, _ in self.coming[:1])]
            if not moments:
                return
            now = max(now, min(moments))
            while self.coming and self.coming[0][0] <= now:
                _, id, leaves = heappop(self.coming)
                self._end(id, now, leaves=leaves)

    # Turns ------------------------------------------------------------------------------------------------------------

    def _begin_turns(self, now: float) -> None:
        self.leaving: set[str] = set()
        self.since = dict.fromkeys(self.held, now)  # of each holder: from when on its use is to be added
        self.used: defaultdict[int, float] = defaultdict(float, self.turns.used if self.turns else {})
        self.standings = dict(self.turns.standings) if self.turns else {}
        for id, standing in self.standings.items():
            if standing.leaves is not None and id in self.held:
                self._leave(id, max(now, standing.leaves))

    def _look(self, now: float) -> list[float]:
        """Have those leave whose turn is over; when to look again."""
        if self.turns is None:
            return []
        ahead = now + self.policy.notice
        lab = Holding(
            queue=self.waiting,
            spaces=self.spaces,
            claims=list(self.held.values()),
            policy=self.policy,
            used=self._used(ahead),
            standings=self.standings,
            stopped=self.turns.stopped,
        )
        for id in turns_over(lab, ahead):
            if id not in self.leaving:
                self._leave(id, ahead)
        ends = [ends_at_the_earliest(claim, self.policy) for claim in self.held.values()]
        due = [end - self.policy.notice for end in ends if end is not None and end - self.policy.notice > now]
        return [min([now + STEP, *due])] if any(end is not None for end in ends) else []

    def _leave(self, id: str, moment: float) -> None:
        self.leaving.add(id)
        heappush(self.coming, (moment + self.save, id, True))

    def _used(self, now: float) -> dict[int, float]:
        used = dict(self.used)
        for id, claim in self.held.items():
            used[claim.uid] = used.get(claim.uid, 0.0) + claim.hold.share * max(0.0, now - self.since[id])
        return used

    def _end(self, id: str, now: float, *, leaves: bool) -> None:
        """A holder ends; or, its turn being over, it leaves and queues again. Of both, what comes first counts."""
        claim = self.held.pop(id, None)
        if claim is None or self.turns is None:
            return
        self.used[claim.uid] += claim.hold.share * (now - self.since[id])
        self.used[claim.uid] -= self.policy.entry_penalty * claim.hold.count
        if leaves:
            again = {**vars(claim), "id": f"{id} again", "since": int(now * 1e9)}
            del again["hold"]
            self.waiting.append(Ticket(**again))

    def _start(self, now: float) -> list[str]:
        """Who can start now does; their ids."""
        if self.turns is not None:
            self.waiting = fair_order(self.waiting, self._used(now), self.policy)
        decisions = everyones_turn(self.waiting, self.spaces, list(self.held.values()), self.policy)
        going = [
            (ticket, one.placement) for ticket, one in zip(self.waiting, decisions, strict=True) if isinstance(one, Go)
        ]
        for ticket, placement in going:
            self.starts[ticket.id] = now
            self.held[ticket.id] = _as_claim(ticket, placement, now if self.turns is not None else None)
            if self.turns is not None:
                self.since[ticket.id], self.standings[ticket.id] = now, Standing()
                self.used[ticket.uid] += self.policy.entry_penalty * ticket.request.count
        self.waiting = [ticket for ticket in self.waiting if ticket.id not in self.starts]
        return [ticket.id for ticket, _ in going]


def _as_claim(ticket: Ticket, placement: Placement, now: float | None) -> Claim:
    hold = Hold(
        devices=tuple(device.uuid for device in placement.devices),
        bytes=placement.bytes,
        alone=placement.alone,
        share=placement.share,
    )
    since = {} if now is None else {"since": int(now * 1e9)}
    return Claim(**vars(ticket) | since, hold=hold)


def _why_not(ticket: Ticket, world: _World, ends: Mapping[str, End], reader: int) -> str:
    """Who it is that nobody knows the end of."""
    useful = {space.device.uuid for space in could_use(ticket.request, world.spaces)}
    claims = list(world.held.values())
    if limit := over_limit(ticket, claims, world.policy.of(ticket.uid), reader):
        return limit
    before = world.waiting[: world.waiting.index(ticket)] if ticket in world.waiting else []
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
