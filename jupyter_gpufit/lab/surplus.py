"""Which claims have more devices than they need, and give some back; pure: every holder answers it from the same files.

A job that was entered with a range takes what is free, and has it for as long as nobody waits. For the first who waits,
those give up devices who have most above their least, as few as it takes; nobody does where it would not be enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from .fewest import fewest
from .place import could_use, rooms
from .quanta import MOST, Holding
from .record import Claim, Request, Ticket
from .standing import NOTHING
from .turn import may_start, most_devices, who_waits

Gift = tuple[str, str]  # a claim's id, and a device of it


@dataclass(frozen=True)
class StillHeld:
    """What a claim keeps that is to give up devices."""

    devices: tuple[str, ...]  # UUIDs
    ticket: Ticket  # for whom


def given_back(lab: Holding) -> dict[str, StillHeld]:
    """What the claims that are to give up devices keep, by the claim's id."""
    left, kept = list(lab.claims), dict[str, StillHeld]()
    queue, given_up = lab.queue[:MOST], set[str]()
    while any(_spare(claim, lab) for claim in left):
        waiting = who_waits(queue, lab.spaces, left, lab.policy, barred=lab.barred)
        ticket = next((one for one in waiting if one.id not in given_up), None)
        if ticket is None:
            break
        given_up.add(ticket.id)
        fewer = _fewest(ticket, queue, left, lab)
        kept |= {claim.id: StillHeld(claim.hold.devices, ticket) for claim in fewer}
        became = {claim.id: claim for claim in fewer}
        left = [became.get(claim.id, claim) for claim in left]
    return kept


def to_be_had(claim: Claim, wanted: Request, lab: Holding) -> list[str]:
    """The devices beside its own that a claim's job could have now, by UUID: nobody waits who could use them.

    `wanted`: which ones it may have at all.
    """
    others = [one for one in lab.claims if one.id != claim.id]
    left = rooms(lab.spaces, others)
    waiting = who_waits(lab.queue[:MOST], lab.spaces, lab.claims, lab.policy, barred=lab.barred)
    kept = {space.device.uuid for ticket in waiting for space in could_use(ticket.request, lab.spaces)}
    free = [
        space.device.uuid
        for space in could_use(replace(wanted, needed=claim.request.needed), lab.spaces)
        if space.device.uuid not in {*claim.hold.devices, *kept} and left[space.device.uuid].fits(claim.request)
    ]
    most = min(claim.request.most, most_devices(claim, others, lab.policy.of(claim.uid)))
    return free[: max(0, most - claim.hold.count)]


def _spare(claim: Claim, lab: Holding) -> int:
    """Devices that it has above the least."""
    if claim.id in lab.stopped or not lab.standings.get(claim.id, NOTHING).gives:
        return 0
    return max(0, len(claim.hold.devices) - claim.request.count)


def _fewest(ticket: Ticket, queue: Sequence[Ticket], claims: Sequence[Claim], lab: Holding) -> list[Claim]:
    """The claims that become smaller, as what they become, so that the ticket starts; none if that is not enough."""
    useful = {space.device.uuid for space in could_use(ticket.request, lab.spaces)}
    smaller = _Smaller(claims)

    def starts(given: Sequence[Gift]) -> bool:
        return may_start(ticket, queue, lab.spaces, smaller.without(given), lab.policy, barred=lab.barred)

    given = fewest(list(_gifts(claims, useful, lab)), starts)
    givers = {id for id, _ in given}
    return [claim for claim in smaller.without(given) if claim.id in givers]


def _gifts(claims: Sequence[Claim], useful: Collection[str], lab: Holding) -> Iterator[Gift]:
    """All that could be given, one after the other by whoever has most above the least then."""
    giving = []
    for claim in claims:
        devices, spare = claim.hold.among(useful), _spare(claim, lab)
        if devices and spare:
            giving.append((-spare, claim.since, -claim.tie, claim.id, devices))
    heapify(giving)
    while giving:
        spare, since, tie, id, devices = heappop(giving)
        yield id, devices[-1]
        if spare < -1 and len(devices) > 1:
            heappush(giving, (spare + 1, since, tie, id, devices[:-1]))


@dataclass
class _Smaller:
    """The claims as they would be, each made once: it takes longer than a question about them does."""

    claims: Sequence[Claim]
    made: dict[tuple[str, ...], Claim] = field(default_factory=dict)  # by id and devices

    def without(self, given: Collection[Gift]) -> list[Claim]:
        gone = set(given)
        givers = {id for id, _ in gone}
        return [self._without(claim, gone) if claim.id in givers else claim for claim in self.claims]

    def _without(self, claim: Claim, gone: Collection[Gift]) -> Claim:
        devices = tuple(uuid for uuid in claim.hold.devices if (claim.id, uuid) not in gone)
        key = (claim.id, *devices)
        if key not in self.made:
            self.made[key] = replace(claim, hold=replace(claim.hold, devices=devices))
        return self.made[key]
