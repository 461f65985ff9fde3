"""What can be done with a job now, and why the rest cannot: for buttons that are there or greyed; pure.

A front asks this before it offers a verb. The verb itself looks again: between the two the lab may have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ..devices.device import Device
from ..jobs import verbs
from ..jobs.verbs import VERBS, Verb
from ..units import format_bytes
from .status import ClaimView, JobView, RoomView, Status


@dataclass(frozen=True, kw_only=True)
class Target:
    """A device to which a job could move, or could not."""

    device: str  # its label
    ok: bool
    reason: str = ""  # why not


@dataclass(frozen=True, kw_only=True)
class Can:
    """The verbs: empty, or the reason why not."""

    checkpoint: str
    release: str
    resume: str
    stop: str
    move: tuple[Target, ...]  # of the devices, in their order


def possible(job: JobView, status: Status) -> Can:
    """What can be done with this job, given what else there is."""
    return Can(**{verb: why_not(job, verb) for verb in VERBS if verb != "move"}, move=_targets(job, status))


def why_not(job: JobView, verb: Verb) -> str:
    """Why this cannot be done with the job, as far as the job itself decides it; empty: it can."""
    words = verbs.why_not(verb, job.state, saved=job.checkpoint is not None or job.kind == "model", kind=job.kind)
    return words[:1].upper() + words[1:]


def _targets(job: JobView, status: Status) -> tuple[Target, ...]:
    first = why_not(job, "move")
    mine = next((claim for claim in status.claims if claim.mine and claim.job == job.id), None)
    targets = []
    for device, room in zip_longest(status.devices, status.rooms):
        reason = first or _why_not_there(job, mine, device, room, status.claims)
        targets.append(Target(device=device.label, ok=not reason, reason=reason))
    return tuple(targets)


def _why_not_there(
    job: JobView, mine: ClaimView | None, device: Device, room: RoomView | None, claims: Sequence[ClaimView]
) -> str:
    if device.label in job.device.split(", "):
        return "It is there already."
    if device.problem:
        return device.problem
    if room is None:
        return "What is free there is not known."
    return _why_it_does_not_fit(mine, device, room, [claim for claim in claims if device.label in claim.devices])


def _why_it_does_not_fit(mine: ClaimView | None, device: Device, room: RoomView, there: list[ClaimView]) -> str:
    alone = next((claim for claim in there if claim.alone), None)
    if alone is not None:
        return f"It is held alone by {alone.words}."
    if room.held_for:
        return f"It is kept for {room.held_for}."
    if mine is None or mine.alone:
        # The whole of a device: nobody else's claim, and no stranger's more than what a context takes.
        if there:
            return f"It would take the whole of it, and {there[0].words} has a part."
        whole = device.total - device.reserved - 2 * room.reserve
        return _too_small(whole, room) if mine is not None and room.free < max(1, whole) else ""
    return _too_small(mine.bytes, room) if room.free < mine.bytes else ""


def _too_small(needed: int, room: RoomView) -> str:
    return f"It takes {format_bytes(needed)}, and {format_bytes(room.free)} are free there."
