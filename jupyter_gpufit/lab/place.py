"""Choose devices for a job: pure, from what is asked, what the devices are, and what is held of them.

What a job may have on a device is what nobody holds: neither a claim (used or not yet) nor a process outside the lab,
less a reserve, since a driver's context, fragmentation and an estimate's error need room too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..devices.device import Device, Process, find_device
from ..errors import BadOption, DeviceUnreadable, HostIsFull, NeverFits, NoSuchDevice
from ..units import device_words
from .policy import RESERVE, Policy

if TYPE_CHECKING:
    from .record import Claim, Request  # at run time the claims build on this module

OPEN = Policy()
MOST_SUMS = 1000  # cases to look at; where there are more, room stays empty for those before us


@dataclass(frozen=True)
class Space:
    """A device, and what on it belongs to nobody in the lab."""

    device: Device
    foreign: int = 0  # bytes
    strangers: tuple[Process, ...] = ()  # who has them
    kept: int = RESERVE  # percent of a GPU; a CPU slot is a budget of ours, all of which can be given away
    closed: str = ""  # why the lab's policy lets nothing start there

    @cached_property  # these are asked for by every waiter, for every ticket and device, at every change
    def reserve(self) -> int:
        return 0 if self.device.kind == "slot" else self.device.total * self.kept // 100

    @cached_property
    def usable(self) -> int:
        """Bytes that jobs can have when the device is idle."""
        return max(0, self.device.total - self.device.reserved - self.reserve)


@dataclass(frozen=True)
class Taken:
    """Bytes of one device that a claim holds, or that somebody before us in the queue is about to take."""

    bytes: int
    alone: bool


@dataclass(frozen=True)
class Room:
    """What can still be had on one device."""

    space: Space
    taken: tuple[Taken, ...] = ()

    @property
    def device(self) -> Device:
        return self.space.device

    @cached_property
    def free(self) -> int:
        """Bytes; none where somebody wants no neighbour."""
        if self.device.problem or self.space.closed or any(taken.alone for taken in self.taken):
            return 0
        return max(0, self.space.usable - self.space.foreign - sum(taken.bytes for taken in self.taken))

    def fits(self, request: Request) -> bool:
        return not (request.alone and self.taken) and self.free >= least(request, self.space)

    def admits(self, placement: Placement) -> bool:
        return not (placement.alone and self.taken) and self.free >= placement.bytes

    def with_(self, taken: Taken) -> Room:
        return Room(self.space, (*self.taken, taken))


Rooms = Mapping[str, Room]  # by UUID


@dataclass(frozen=True)
class Placement:
    """Where a job goes, and what it gets there."""

    devices: tuple[Device, ...]
    bytes: int  # on each
    alone: bool

    @property
    def taken(self) -> Taken:
        return Taken(self.bytes, self.alone)

    @property
    def share(self) -> float:
        """How much of the devices this is, in devices."""
        if self.alone:
            return float(len(self.devices))
        return sum(min(1.0, self.bytes / device.total) for device in self.devices)


def measure(
    devices: Iterable[Device], claims: Sequence[Claim], ours: Mapping[int, str], policy: Policy = OPEN
) -> tuple[Space, ...]:
    """Tell apart what on each device belongs to claims and what does not; `ours` maps pids to claims' ids."""
    return tuple(_measure_one(device, claims, ours, policy) for device in devices)


def _measure_one(device: Device, claims: Sequence[Claim], ours: Mapping[int, str], policy: Policy) -> Space:
    closed = policy.closed(device)
    if device.kind == "slot":
        return Space(device, closed=closed)
    used: dict[str, int] = {}
    for process in device.processes:
        if process.pid in ours:
            used[ours[process.pid]] = used.get(ours[process.pid], 0) + (process.bytes or 0)
    # Beyond its claim, a job's use is nobody's either: it must not be given away a second time.
    held = sum(min(used.get(claim.id, 0), claim.hold.bytes) for claim in claims if claim.hold.among([device.uuid]))
    strangers = tuple(process for process in device.processes if process.pid not in ours)
    return Space(device, max(0, device.used - held), strangers, policy.reserve, closed)


def rooms(spaces: Iterable[Space], claims: Iterable[Claim]) -> dict[str, Room]:
    """What the claims leave of each device."""
    by_uuid = {space.device.uuid: space for space in spaces}
    taken: dict[str, list[Taken]] = {uuid: [] for uuid in by_uuid}
    for claim in claims:
        for uuid in claim.hold.among(by_uuid.keys()):  # somebody may have devices that we do not see
            taken[uuid].append(Taken(claim.hold.bytes, claim.hold.alone))
    return {uuid: Room(space, tuple(taken[uuid])) for uuid, space in by_uuid.items()}


def least(request: Request, space: Space) -> int:
    """The bytes below which the job cannot start on this device."""
    if request.needed is not None:
        return request.needed
    # Somebody's desktop on the GPU must not keep jobs away that want "the whole of it".
    return max(1, space.usable - space.reserve)


def candidates(request: Request, devices: Sequence[Device]) -> list[Device]:
    """The devices the request allows; raise NoSuchDevice for one that is not here."""
    words = [word for word in request.gpu.split(",") if word.strip()]
    if not words:
        return list(devices)
    return list({device.uuid: device for device in (find_device(devices, word) for word in words)}.values())


def could_use(request: Request, spaces: Sequence[Space]) -> list[Space]:
    """The devices on which the job would fit if they were idle; none for one who pins a device that we do not see."""
    large = [space for space in spaces if not space.device.problem and space.usable >= least(request, space)]
    large = [space for space in large if not space.closed]
    if not request.gpu:
        return large
    try:
        allowed = {device.uuid for device in candidates(request, [space.device for space in spaces])}
    except NoSuchDevice:
        return []
    return [space for space in large if space.device.uuid in allowed]


def refuse_impossible(request: Request, devices: Sequence[Device], policy: Policy = OPEN) -> None:
    """Raise for a job that would wait for ever: NoSuchDevice, NeverFits, DeviceUnreadable, HostIsFull or BadOption.

    A device that is drained comes back, and one that is kept out does not.
    """
    allowed = candidates(request, devices)
    kept_out = [device for device in allowed if policy.keeps_out(device)]
    allowed = [device for device in allowed if device not in kept_out]
    if not allowed:
        names = device_words([device.label for device in kept_out])
        raise BadOption(
            f"The lab's policy keeps {names} out (gpufit lab policy). Name another device, or leave out --gpu."
        )
    healthy = [Space(device, kept=policy.reserve) for device in allowed if not device.problem]
    if not healthy:
        raise DeviceUnreadable(allowed[0].label, allowed[0].problem)
    largest = max(healthy, key=lambda space: space.usable)
    possible = could_use(request, healthy)
    if not possible:
        raise NeverFits(request.needed or 0, largest.device.label, largest.usable)
    if len(possible) < request.count:
        here = device_words([space.device.label for space in possible])
        raise BadOption(f"The job asks for {request.count} devices, and only {here} can serve it. Ask for fewer.")
    refuse_too_much_host(request, policy)


def refuse_too_much_host(request: Request, policy: Policy) -> None:
    if request.host > policy.for_plans:
        raise HostIsFull(request.host, policy.for_plans, allowed=True)


def place(
    request: Request,
    rooms: Rooms,
    allowed: Callable[[Room], bool] = lambda room: True,
    most: int | None = None,
) -> Placement | None:
    """Choose the least busy devices where the job fits; among equals those left with the least room.

    As many as it wants and `most` lets it have, and never fewer than it needs.

    A tight fit keeps the large devices whole for the large jobs.
    """
    fitting = [room for room in rooms.values() if room.fits(request)]
    if len(fitting) < request.count:
        return None  # in a full lab the quick answer, which every waiter gives for every ticket
    possible = {space.device.uuid for space in could_use(request, [room.space for room in rooms.values()])}
    fitting = [room for room in fitting if room.device.uuid in possible and allowed(room)]
    if len(fitting) < request.count:
        return None
    wanted = request.most if most is None else min(request.most, most)
    chosen = sorted(fitting, key=_busy)[: max(request.count, wanted)]
    granted = request.needed if request.needed is not None else min(room.free for room in chosen)
    return Placement(tuple(room.device for room in chosen), granted, request.alone)


def _busy(room: Room) -> tuple[int, int, int, int]:
    # In tens of percent: what a utilisation wobbles by is no reason to prefer a device.
    return (room.device.utilisation or 0) // 10, len(room.taken), room.free, room.device.index


class SpareRoom:
    """How much more may be taken of a device without ever delaying jobs before us that want so many bytes of it.

    They start when enough of what is taken now comes back, in an order that nobody knows. So what is spare must be left
    over in every case: for whichever of the taken parts came back and whichever of the jobs came here. The jobs are
    added one by one, and each look costs what is new: a status asks it for thousands.
    """

    def __init__(self, room: Room) -> None:
        self._room = room
        self._most: int | None = None  # bytes; None: there is no case in which it is missed
        self._left: set[int] | None = None  # free bytes, for whichever of the taken parts came back
        self._after: set[int] = set()  # what remains of that when some of those jobs are here, too

    def covers(self, extra: int) -> bool:
        return self._most is None or extra <= self._most

    def add(self, need: int) -> None:
        """One more job waits, and wants so many bytes."""
        if self._most is not None and self._most <= 0:
            return  # nothing is
        if self._left is None:
            self._left = _sums(self._room)
        # Where less than nothing would remain, they are not here together.
        more = {free - need for free in self._left | self._after if free >= need}
        if not self._left or len(more) > MOST_SUMS:
            self._most = 0
            return
        self._after |= more
        if more:
            self._most = min(more) if self._most is None else min(self._most, *more)


def _sums(room: Room) -> set[int]:
    """What can be free of a device, for whichever of its taken parts came back; empty: too many cases."""
    if any(taken.alone for taken in room.taken):
        return set()
    left = {room.free}
    for part in (*(taken.bytes for taken in room.taken), room.space.foreign):
        left |= {free + part for free in left}
        if len(left) > MOST_SUMS:
            return set()
    return left


def harmless(extra: int, room: Room, wanted: Sequence[int]) -> bool:
    """Could `extra` bytes more on this device never delay jobs before us that want so many bytes of it?"""
    spare = SpareRoom(room)
    for need in wanted:
        spare.add(need)
    return spare.covers(extra)
