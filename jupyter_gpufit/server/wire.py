"""What goes over the API, as values; pure. The description and the TypeScript types are generated from these classes.

They are what `status.py` reads, put together for somebody who looks at a panel: what belongs to a device stands with
it, and with a job what can be done with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from ..actions.possible import Can, possible
from ..actions.status import ClaimView, JobView, RoomView, TicketView
from ..actions.status import Status as Reading
from ..devices.device import Device as BareDevice
from ..jobs.curves import Break
from ..jobs.events import Entry as JournalEntry
from ..jobs.verbs import Verb
from ..system.host import Host

Sample = tuple[float, int | None, int]  # seconds since 1970, percent busy, bytes used
UnderWay = Mapping[str, tuple[Verb, ...]]  # by the job's id


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a device's memory; all parts together are the device's total."""

    kind: Literal["mine", "claim", "foreign", "reserve", "free"]  # foreign: processes outside the lab
    user: str = ""
    job: str = ""  # the job's id
    bytes: int
    used: int | None = None  # bytes of a claim that its processes have; None: nobody tells


@dataclass(frozen=True, kw_only=True)
class WireDevice(BareDevice):
    """A device, and what there is of it."""

    room: RoomView
    parts: tuple[Part, ...]
    history: tuple[Sample, ...]  # while somebody looked, oldest first
    idle_since: float | None  # seconds since 1970: somebody holds it, and at every look since then it computed nothing


@dataclass(frozen=True, kw_only=True)
class WireJob(JobView):
    """One of this user's jobs."""

    can: Can
    under_way: tuple[Verb, ...] = ()  # asked of this server, and not done yet


@dataclass(frozen=True, kw_only=True)
class WireStatus:
    """Everything a panel shows."""

    version: str  # of jupyter_gpufit in the server
    devices: tuple[WireDevice, ...]
    jobs: tuple[WireJob, ...]  # this user's, oldest first
    claims: tuple[ClaimView, ...]  # everybody's, oldest first
    queue: tuple[TicketView, ...]  # everybody's, in the order of service
    remarks: tuple[str, ...]  # what the reader must know of the lab
    host: Host | None  # the machine beside its devices
    problem: str  # why something is missing here; empty: nothing is
    time: float  # of this reading; seconds since 1970


@dataclass(frozen=True, kw_only=True)
class WireEntry:
    """One entry of a job's journal."""

    number: int
    time: float  # seconds since 1970
    event: dict[str, Any]  # `kind`, and what belongs to it


@dataclass(frozen=True, kw_only=True)
class WireJournal:
    """A stretch of a job's journal."""

    entries: tuple[WireEntry, ...]
    next: int  # to be given as `after` for what comes then
    ended: bool  # nothing more will come unless the job is resumed


@dataclass(frozen=True, kw_only=True)
class WireCurve:
    """One of the loop's numbers over its steps, with as many points as a picture shows."""

    name: str
    points: tuple[tuple[float, float | None], ...]  # step, value; None: not a finite number


@dataclass(frozen=True, kw_only=True)
class WireCurves:
    """What a job's numbers did."""

    names: tuple[str, ...]  # of all that there are
    curves: tuple[WireCurve, ...]  # of those that its user wants drawn
    memory: tuple[tuple[float, float | None], ...] = ()  # seconds since 1970, bytes on the device
    clock: tuple[tuple[float, float | None], ...] = ()  # step, seconds since 1970
    busy: tuple[tuple[float, float | None], ...] = ()  # seconds since 1970, percent of the time: of its device
    power: tuple[tuple[float, float | None], ...] = ()  # seconds since 1970, watts of its device
    breaks: tuple[Break, ...] = ()  # where no line goes
    laps: tuple[tuple[float, int], ...] = ()  # step, and which item of the outermost loop began there: its epochs
    older: bool = False  # the whole run has more than its latest thousand points


@dataclass(frozen=True, kw_only=True)
class PickBody:
    """Which of a job's numbers to draw from now on."""

    names: tuple[str, ...]  # those that there are not are passed over


@dataclass(frozen=True, kw_only=True)
class ActionBody:
    """The body of an action; may be left out."""

    to: str = ""  # of a move: the device's label; of a resume: a checkpoint's name or step; empty: the best other one


@dataclass(frozen=True, kw_only=True)
class RemoveBody:
    """Which jobs that have ended are to be removed, with all their files."""

    jobs: tuple[str, ...]  # their ids


@dataclass(frozen=True, kw_only=True)
class WireSaid:
    """What an action said in its first moment."""

    said: str


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why not."""

    message: str


@dataclass(frozen=True, kw_only=True)
class StatusMessage:
    """There is a new status."""

    type: Literal["status"] = "status"
    status: WireStatus
    since: float = 0.0  # seconds since 1970: of each history only what is newer, which the messages before had; 0: all


@dataclass(frozen=True, kw_only=True)
class EntriesMessage:
    """New entries of a journal that this client follows."""

    type: Literal["entries"] = "entries"
    job: str
    entries: tuple[WireEntry, ...]
    ended: bool
    question: int  # the number of the `FollowFrom` that this answers


@dataclass(frozen=True, kw_only=True)
class SaidMessage:
    """What an action said after it was answered."""

    type: Literal["said"] = "said"
    job: str  # its id
    action: str
    text: str
    failed: bool


@dataclass(frozen=True, kw_only=True)
class ProblemMessage:
    """A message of this client's made no sense."""

    type: Literal["problem"] = "problem"
    message: str


@dataclass(frozen=True, kw_only=True)
class FollowFrom:
    """Which journal to follow, and from where."""

    job: str  # its id
    after: int = 0  # a number of entry; -1000: the last thousand
    question: int = 0  # comes back with each answer: those to an earlier question may still be on their way


def status_of(
    reading: Reading,
    history: Mapping[str, Sequence[Sample]],
    version: str,
    under_way: UnderWay = MappingProxyType({}),
    idle: Mapping[str, float] = MappingProxyType({}),
    host: Host | None = None,
    since: float = 0.0,
) -> WireStatus:
    """Put together what was read, for somebody who looks at a panel; of each history what is newer than `since`."""
    nothing = RoomView(free=0, foreign=0, held_for="")
    rooms = [*reading.rooms, *[nothing] * (len(reading.devices) - len(reading.rooms))]
    return WireStatus(
        version=version,
        devices=tuple(
            WireDevice(
                **vars(device),
                room=room,
                parts=parts_of(device, room, reading.claims, reading.jobs),
                history=tuple(sample for sample in history.get(device.uuid, ()) if sample[0] > since),
                idle_since=idle.get(device.uuid),
            )
            for device, room in zip(reading.devices, rooms, strict=True)
        ),
        jobs=tuple(
            WireJob(**vars(job), can=possible(job, reading), under_way=under_way.get(job.id, ()))
            for job in reading.jobs
        ),
        claims=reading.claims,
        queue=reading.queue,
        remarks=reading.remarks,
        host=host,
        problem=reading.problem,
        time=reading.time,
    )


def parts_of(
    device: BareDevice, room: RoomView, claims: Sequence[ClaimView], jobs: Iterable[JobView] = ()
) -> tuple[Part, ...]:
    """The device's memory in parts, claims first; together they are its total, whatever somebody's claim says."""
    if device.problem:
        return ()
    held = [claim for claim in claims if device.label in claim.devices]
    uses = _uses(device, room, held, {job.id: job for job in jobs})
    wanted = [
        Part(kind="mine" if claim.mine else "claim", user=claim.user, job=claim.job, bytes=claim.bytes, used=used)
        for claim, used in zip(held, uses, strict=True)
    ]
    known = {process.user: 0 for process in room.strangers}
    for process in room.strangers:
        known[process.user] += process.bytes or 0
    wanted += [Part(kind="foreign", user=user, bytes=count) for user, count in known.items()]
    # What the driver does not attribute to a process is somebody's all the same.
    wanted.append(Part(kind="foreign", bytes=max(0, room.foreign - sum(known.values()))))
    wanted.append(Part(kind="reserve", bytes=device.reserved + room.reserve))
    left, parts = device.total, []
    for part in wanted:
        if (count := min(part.bytes, left)) > 0:
            used = None if part.used is None else min(part.used, count)
            parts.append(replace(part, bytes=count, used=used))
            left -= count
    return (*parts, Part(kind="free", bytes=left))


def _uses(
    device: BareDevice, room: RoomView, claims: Sequence[ClaimView], jobs: Mapping[str, JobView]
) -> list[int | None]:
    """How much of each claim its processes have: what a job of ours says, else what the driver says of its user.

    The driver tells users apart and not their claims: the first ones of a user are filled first.
    """
    strangers = {process.pid for process in room.strangers}
    left: dict[str, int] = {}
    for process in device.processes:
        if process.pid not in strangers and process.bytes is not None:
            left[process.user] = left.get(process.user, 0) + process.bytes
    found: list[int | None] = []
    for claim in claims:
        job = jobs.get(claim.job)
        if claim.mine and job is not None and job.memory is not None:
            used: int | None = job.memory.used
        else:
            used = min(left[claim.user], claim.bytes) if claim.user in left else None
        if used is not None and claim.user in left:
            left[claim.user] = max(0, left[claim.user] - used)
        found.append(used)
    return found


def entry_of(entry: JournalEntry) -> WireEntry:
    """An entry of the journal as the API has it."""
    return WireEntry(number=entry.seq, time=entry.time, event={"kind": entry.event.kind, **vars(entry.event)})
