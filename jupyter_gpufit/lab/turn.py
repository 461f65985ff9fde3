"""Whose turn is it? Pure: every waiter answers it from the same files, and so they agree without talking.

The queue is gone through in its order. Whoever fits is about to start, and what it takes is taken. Whoever does not fit
waits, and from then on nobody behind it may take what could delay it: room that is left over in any case can be used,
all other room that a waiting job could use stays free for it. So a wait never depends on who came later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

from ..units import format_bytes
from .place import Placement, Room, Space, SpareRoom, could_use, least, place, rooms
from .policy import Policy, UserPolicy, UserState, exceeded, whom
from .record import MOST_CLAIMS, MOST_DEVICES, Claim, Request, Ticket


@dataclass(frozen=True)
class Go:
    placement: Placement


@dataclass(frozen=True)
class Wait:
    """Why this ticket cannot start now."""

    starting: Sequence[Ticket]  # before us, and able to start this moment
    waiting: Sequence[Ticket]  # before us, and waiting as well
    fits: bool = False  # there would be room, but for those before us
    kept_for: tuple[Ticket, ...] = ()  # of the waiting, for whom that room is kept
    for_strangers_only: bool = False  # only processes outside the lab are in the way
    limit: str = ""  # what the lab's policy allows this user


@dataclass
class _Hall:
    """What is left while the queue is gone through."""

    spaces: Sequence[Space]
    claims: Sequence[Claim]
    policy: Policy
    barred: Mapping[int, str]  # by uid: why nothing of theirs may start
    reader: int | None = None  # the uid of who is told why one waits, and is "you" there
    starting: list[Ticket] = field(default_factory=list)
    waiting: list[Ticket] = field(default_factory=list)
    wanting: dict[str, _Wanting] = field(default_factory=dict)  # by UUID: of those, who could use the device
    for_host: str = ""  # who is the first to wait for the host's memory: the ticket's id

    def __post_init__(self) -> None:
        self.rooms = rooms(self.spaces, self.claims)

    def decide(self, ticket: Ticket) -> Go | Wait:
        """What this ticket may do, whose turn it is to be looked at."""
        limit = self.limit(ticket)
        placement = None if limit else self.admit(ticket)
        if placement is not None:
            return Go(placement)
        fits = not limit and place(ticket.request, self._without_queue) is not None
        others = bool(limit or fits or self.starting or self.waiting)
        return Wait(
            First(self.starting),
            First(self.waiting),
            limit=limit,
            fits=fits,
            kept_for=self._kept_for(ticket) if fits and not self.starting else (),
            for_strangers_only=not others and place(ticket.request, self._without_strangers) is not None,
        )

    @cached_property
    def _without_queue(self) -> dict[str, Room]:
        return rooms(self.spaces, self.claims)

    @cached_property
    def _without_strangers(self) -> dict[str, Room]:
        return rooms([replace(space, foreign=0) for space in self.spaces], self.claims)

    def _kept_for(self, ticket: Ticket) -> tuple[Ticket, ...]:
        """Who is the first to wait for one of the devices that this one could have now."""
        here = [self.wanting[uuid] for uuid, room in self.rooms.items() if uuid in self.wanting]
        first = [wanting.first for wanting in here if wanting.room.fits(ticket.request)]
        return tuple({other.id: other for other in first}.values())

    def let_by(self, ticket: Ticket) -> None:
        """Go on to the next in the queue, with what this one is about to take, or waits for, in mind."""
        if self.limit(ticket):
            return
        self.go_on(ticket, self.admit(ticket))

    def limit(self, ticket: Ticket) -> str:
        limit = self.barred.get(ticket.uid) or self._too_many(ticket)
        limit = limit or over_limit(ticket, self.claims, self.policy.of(ticket.uid), self.reader)
        return limit or self._host_is_full(ticket)

    def _too_many(self, ticket: Ticket) -> str:
        if self._claims_of[ticket.uid] < MOST_CLAIMS:
            return ""
        return f"the lab lets {whom(ticket.uid, self.reader)} have {MOST_CLAIMS} jobs at once"

    @cached_property
    def _claims_of(self) -> Counter[int]:
        return Counter(claim.uid for claim in self.claims)

    def _host_is_full(self, ticket: Ticket) -> str:
        """Who waits for the host's memory keeps no device free: only what takes of that, too, does not go by."""
        if not ticket.request.host:
            return ""
        why = no_room_on_host(ticket.request, (*self.claims, *self.starting), self.policy)
        if not why and self.for_host in ("", ticket.id):
            return ""
        # Others wait for one who needs nothing but that memory: not for a device that is taken, and not for ever.
        if not self.for_host and ticket.request.host <= self.policy.for_plans and self.admit(ticket) is not None:
            self.for_host = ticket.id
        return why or "a job that came first waits for the host's memory"

    def go_on(self, ticket: Ticket, placement: Placement | None) -> None:
        """The same, for one of whom it is known what it is about to take; None: it waits."""
        if placement is None:
            self.waiting.append(ticket)
            for space in could_use(ticket.request, self.spaces):
                uuid = space.device.uuid
                if uuid not in self.wanting:
                    self.wanting[uuid] = _Wanting(ticket, self.rooms[uuid])
                self.wanting[uuid].add(ticket)
            return
        self.starting.append(ticket)
        for device in placement.devices:
            room = self.rooms[device.uuid] = self.rooms[device.uuid].with_(placement.taken)
            if device.uuid in self.wanting:
                self.wanting[device.uuid].see(room)

    def admit(self, ticket: Ticket) -> Placement | None:
        most = most_devices(ticket, self.claims, self.policy.of(ticket.uid))
        return place(ticket.request, self.rooms, lambda room: self._harmless(ticket, room), most)

    def _harmless(self, ticket: Ticket, room: Room) -> bool:
        before = self.wanting.get(room.device.uuid)
        return before is None or before.harmless(ticket)


@dataclass
class _Wanting:
    """Those who wait for one device, as it will be left to them."""

    first: Ticket
    room: Room
    wanted: list[int] = field(default_factory=list)  # bytes
    alone: bool = False  # one of them wants no neighbour
    spare: SpareRoom = field(init=False)

    def __post_init__(self) -> None:
        self.spare = SpareRoom(self.room)

    def add(self, ticket: Ticket) -> None:
        self.alone = self.alone or ticket.request.alone
        self.wanted.append(least(ticket.request, self.room.space))
        self.spare.add(self.wanted[-1])

    def see(self, room: Room) -> None:
        """Somebody is about to take a part of it."""
        self.room, self.spare = room, SpareRoom(room)
        for need in self.wanted:
            self.spare.add(need)

    def harmless(self, ticket: Ticket) -> bool:
        if self.alone or ticket.request.alone:
            return False  # who wants no neighbour can only wait until the last one leaves
        return self.spare.covers(least(ticket.request, self.room.space))


class First(Sequence[Ticket]):
    """The first of a list that grows, as many as there are now: each of thousands has its own, and none is copied."""

    def __init__(self, tickets: list[Ticket]) -> None:
        self._tickets, self._count = tickets, len(tickets)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Ticket: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Ticket]: ...
    def __getitem__(self, index: int | slice) -> Ticket | Sequence[Ticket]:
        if isinstance(index, slice):
            return [self._tickets[at] for at in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        return self._tickets[index if index >= 0 else self._count + index]


def whose_turn(
    mine: Ticket,
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    policy: Policy,
    *,
    passed: Collection[str] = (),
    barred: Mapping[int, str] = {},
    reader: int | None = None,
) -> Go | Wait:
    """May `mine` start, given the queue in its order? `passed` are tickets that could start and, for long, did not."""
    hall = _Hall(spaces, claims, policy, barred, reader)
    for ticket in queue:
        if ticket.id == mine.id:
            return hall.decide(ticket)
        if ticket.id not in passed:
            hall.let_by(ticket)
    raise AssertionError(f"{mine.id} is not in the queue")


def may_start(
    mine: Ticket,
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    policy: Policy,
    *,
    barred: Mapping[int, str] = {},
) -> bool:
    """Whether it is a Go, where nobody is told why not: that takes as long again, and is asked hundreds of times."""
    hall = _Hall(spaces, claims, policy, barred)
    for ticket in queue:
        if ticket.id == mine.id:
            return not hall.limit(ticket) and hall.admit(ticket) is not None
        hall.let_by(ticket)
    raise AssertionError(f"{mine.id} is not in the queue")


def everyones_turn(
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    policy: Policy,
    *,
    barred: Mapping[int, str] = {},
    reader: int | None = None,
) -> list[Go | Wait]:
    """What each ticket of the queue may do, in its order: what a status shows."""
    hall = _Hall(spaces, claims, policy, barred, reader)
    decisions: list[Go | Wait] = []
    for ticket in queue:
        decision = hall.decide(ticket)
        decisions.append(decision)
        if isinstance(decision, Go):
            hall.go_on(ticket, decision.placement)
        elif not decision.limit:
            hall.go_on(ticket, None)
    return decisions


def who_waits(
    queue: Sequence[Ticket],
    spaces: Sequence[Space],
    claims: Sequence[Claim],
    policy: Policy,
    *,
    barred: Mapping[int, str] = {},
) -> list[Ticket]:
    """Those of the queue who cannot start for want of room, in its order."""
    hall = _Hall(spaces, claims, policy, barred)
    for ticket in queue:
        hall.let_by(ticket)
    return hall.waiting


def over_limit(ticket: Ticket, claims: Sequence[Claim], allowed: UserPolicy, reader: int | None = None) -> str:
    """What of the user's limits the job would exceed now; empty: nothing."""
    if allowed.devices is None and allowed.memory is None:
        return ""
    holds = [claim.hold for claim in claims if claim.uid == ticket.uid]
    state = UserState(devices=sum(hold.count for hold in holds), memory=sum(hold.bytes * hold.count for hold in holds))
    return exceeded(allowed, state, ticket.request.count, ticket.request.needed, whom(ticket.uid, reader))


def no_room_on_host(request: Request, beside: Sequence[Ticket], policy: Policy) -> str:
    """Why what its plan takes of the host's memory is not to be had now; empty: it is."""
    of_users: Counter[int] = Counter()
    for ticket in beside:
        of_users[ticket.uid] += ticket.request.host
    held = sum(min(of_user, policy.for_plans) for of_user in of_users.values())  # a record may say anything
    if not request.host or held + request.host <= policy.for_plans:
        return ""
    return (
        f"its plan takes {format_bytes(request.host)} of the host's memory, of which plans may have"
        f" {format_bytes(policy.for_plans)} and jobs hold {format_bytes(held)}"
    )


def most_devices(ticket: Ticket, claims: Sequence[Claim], allowed: UserPolicy) -> int:
    """How many devices the user's limits let the job have."""
    holds = [claim.hold for claim in claims if claim.uid == ticket.uid]
    most = MOST_DEVICES
    if allowed.devices is not None:
        most = min(most, allowed.devices - sum(hold.count for hold in holds))
    if allowed.memory is not None and ticket.request.needed:
        most = min(most, (allowed.memory - sum(hold.bytes * hold.count for hold in holds)) // ticket.request.needed)
    return most


def held_back(queue: Sequence[Ticket], spaces: Sequence[Space], claims: Sequence[Claim]) -> dict[str, Ticket]:
    """The devices that stand free, at least in part, for the first waiting job: a hold that everybody sees."""
    left = rooms(spaces, claims)
    for ticket in queue:
        if place(ticket.request, left) is None:
            could = [space.device.uuid for space in could_use(ticket.request, spaces)]
            return {uuid: ticket for uuid in could if left[uuid].fits(ticket.request)}
    return {}
