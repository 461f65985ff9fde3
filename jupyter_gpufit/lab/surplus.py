"""Which claims have more devices than they need, and give some back; pure: every holder answers it from the same files.

A job that was entered with a range takes what is free, and has it for as long as nobody waits. For the first who waits,
those give up devices who have most above their least, as few as it takes; nobody does where it would not be enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .place import could_use, rooms
from .quanta import MOST, Holding
from .record import Claim, Request, Ticket
from .standing import NOTHING
from .turn import Go, most_devices, who_waits, whose_turn


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
        left = _with(left, fewer)
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
    smaller: dict[str, Claim] = {}
    while True:
        now = _with(claims, list(smaller.values()))
        giving = [one for one in now if _spare(one, lab) and one.hold.among(useful)]
        if not giving:
            return []
        claim = max(giving, key=lambda one: (_spare(one, lab), -one.since, one.tie))
        gone = claim.hold.among(useful)[-1]
        smaller[claim.id] = _without(claim, gone)
        if _starts(ticket, queue, _with(claims, list(smaller.values())), lab):
            return _no_more_than_it_takes(ticket, queue, claims, smaller, lab)


def _no_more_than_it_takes(
    ticket: Ticket, queue: Sequence[Ticket], claims: Sequence[Claim], smaller: dict[str, Claim], lab: Holding
) -> list[Claim]:
    """Of those that came first, some may have given what this ticket cannot use."""
    for whole in claims:
        for device in whole.hold.devices:
            became = smaller.get(whole.id, whole)
            if device not in became.hold.devices:
                devices = tuple(one for one in whole.hold.devices if one == device or one in became.hold.devices)
                again = {**smaller, whole.id: replace(became, hold=replace(became.hold, devices=devices))}
                if _starts(ticket, queue, _with(claims, list(again.values())), lab):
                    smaller = again
    as_they_were = {claim.id: claim.hold.devices for claim in claims}
    return [claim for claim in smaller.values() if claim.hold.devices != as_they_were[claim.id]]


def _without(claim: Claim, device: str) -> Claim:
    devices = tuple(uuid for uuid in claim.hold.devices if uuid != device)
    return replace(claim, hold=replace(claim.hold, devices=devices))


def _with(claims: Sequence[Claim], changed: Sequence[Claim]) -> list[Claim]:
    by_id = {claim.id: claim for claim in changed}
    return [by_id.get(claim.id, claim) for claim in claims]


def _starts(ticket: Ticket, queue: Sequence[Ticket], claims: Sequence[Claim], lab: Holding) -> bool:
    return isinstance(whose_turn(ticket, queue, lab.spaces, claims, lab.policy, barred=lab.barred), Go)
