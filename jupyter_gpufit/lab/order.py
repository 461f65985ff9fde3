"""In which order the queue is served: one pure function, which every waiter computes alike.

Users take turns: whoever used the devices least comes first, and a turn costs. Within one user, first come is first
served. So a thousand tickets gain nothing, and an empty week counts in one's favour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heapreplace
from math import log

from .policy import Policy
from .record import Claim, Ticket


def fair_order(tickets: Iterable[Ticket], used: Mapping[int, float], policy: Policy) -> list[Ticket]:
    """The tickets in the order of service; `used` is what each user has used, in device-seconds."""
    spent = defaultdict(float, used)
    waiting: defaultdict[int, list[Ticket]] = defaultdict(list)
    for ticket in sorted(tickets, key=lambda ticket: (ticket.since, ticket.tie), reverse=True):
        waiting[ticket.uid].append(ticket)
    turn = _turn(waiting, spent, policy)
    # Only who was served has another turn than before: so it is a heap, and a queue of thousands costs what it is long.
    turns = [(turn(uid), uid) for uid in waiting]
    heapify(turns)
    order = []
    while turns:
        uid = turns[0][1]
        ticket = waiting[uid].pop()
        order.append(ticket)
        # As if it had been served: the next of this user's comes after the others' first.
        spent[uid] += policy.entry_penalty * ticket.request.count
        if waiting[uid]:
            heapreplace(turns, (turn(uid), uid))
        else:
            heappop(turns)
    return order


def _turn(
    waiting: Mapping[int, list[Ticket]], spent: Mapping[int, float], policy: Policy
) -> Callable[[int], tuple[int, int, int, int]]:
    priority = {uid: policy.of(uid).priority for uid in waiting}

    def turn(uid: int) -> tuple[int, int, int, int]:
        first = waiting[uid][-1]
        # In whole seconds: the last bits of a sum depend on how it was added up.
        return -priority[uid], round(spent[uid]), first.since, first.tie

    return turn


def used_by_user(
    claims: Iterable[Claim], past: Mapping[int, float], policy: Policy, *, now: float
) -> defaultdict[int, float]:
    """Device-seconds by user, with running claims on top of what is `past`; those of long ago count less.

    A running claim costs a penalty from its first moment; without it, whoever enters many jobs at once would have them
    all served before the first second is counted.
    """
    used = defaultdict(float, past)
    for claim in claims:
        seconds = decayed_seconds(claim.since / 1e9, now, half_life=policy.half_life, now=now)
        used[claim.uid] += claim.hold.share * seconds + policy.entry_penalty * claim.hold.count
    return used


def decayed_seconds(start: float, end: float, *, half_life: float, now: float) -> float:
    """The seconds from start to end, each weighted by half for every half-life that it lies before `now`."""
    # The integral of 2 ** ((t - now) / half_life); a clock set back gives nobody anything.
    return (
        0.0
        if end <= start
        else half_life / log(2) * (2.0 ** ((end - now) / half_life) - 2.0 ** ((start - now) / half_life))
    )
