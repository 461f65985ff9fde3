"""Which devices an estimate fits; pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ...lab.place import Room, Space
from .report import Estimate

Fit = Literal["fits now", "fits when idle", "tight", "does not fit", "cannot tell"]


@dataclass(frozen=True)
class Verdict:
    """What an estimate means for one device."""

    device: str  # its label
    name: str
    fit: Fit
    free: int  # bytes that can be had now
    usable: int  # bytes that can be had when it is idle


def verdicts(estimate: Estimate, rooms: Iterable[Room]) -> tuple[Verdict, ...]:
    """One for each device."""
    return tuple(
        Verdict(room.device.label, room.device.name, fit_of(estimate, room), room.free, room.space.usable)
        for room in rooms
    )


def fit_of(estimate: Estimate, room: Room) -> Fit:
    """The need decides; between it and the least that could do, it is tight."""
    usable = usable_alone(room.space)
    if room.device.problem or estimate.low > usable:
        return "does not fit"
    if estimate.need is None:
        return "cannot tell"
    if estimate.need <= room.free:
        return "fits now"
    return "fits when idle" if estimate.need <= room.space.usable else "tight"


def usable_alone(space: Space) -> int:
    """Bytes for a job that has the device to itself: the reserve is for neighbours."""
    return space.usable + space.reserve


def verdict_on(estimate: Estimate) -> Fit:
    """For a card that is not here: idle, and with what a lab keeps back."""
    if estimate.low > estimate.card_total:
        return "does not fit"
    if estimate.need is None:
        return "cannot tell"
    return "fits when idle" if estimate.need <= estimate.card_total * 9 // 10 else "tight"
