"""One reading of the lab for every front: devices, claims, queue and this user's jobs, with their reasons."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..devices.device import Device, Process
from ..devices.here import read_devices
from ..errors import DeviceError, GpufitError
from ..jobs.job import Job, JobKind
from ..jobs.live import CallFigures, Loss, Memory, Progress
from ..jobs.paths import JobPaths
from ..jobs.record import LastCheckpoint, Record, read_record
from ..jobs.state import ENDED, GOING, State
from ..jobs.store import all_jobs
from ..lab import Claim, Lab, Ticket, Waiting, open_lab
from ..lab.place import Room
from ..lab.reasons import wants, whose
from ..lab.standing import NOTHING, Standing
from ..lab.view import LabReader, LabView
from ..lab.wishes import Wish, read_wishes
from ..settings import Settings
from ..system.users import user_name


@dataclass(frozen=True)
class JobView:
    """A job as the fronts show it."""

    id: str
    name: str
    state: State
    reason: str
    since: float  # seconds since 1970
    created: float  # seconds since 1970
    pid: int | None
    device: str
    epoch: int
    step: int
    notebook: str
    began: float | None = None  # seconds since 1970: its cell ran for the first time
    ran: float = 0.0  # seconds for which its cell ran, on whatever device, until `since`
    kernel_id: str = ""  # of the kernel that started it; empty: none
    cell: str = ""  # the id of the notebook's cell that shows it; empty: nobody told it, or it is captured
    followed: bool = True  # a kernel or a terminal shows its output, or may
    progress: Progress = Progress(step=0)
    loss: Loss | None = None
    metrics: tuple[str, ...] = ()  # names of the variables whose values are in the journal
    mfu: float | None = None  # 1 is all of the card's arithmetic
    mfu_foreseen: float | None = None  # before it ran
    memory: Memory | None = None
    checkpoint: LastCheckpoint | None = None  # the latest
    kind: JobKind = "training"
    calls: CallFigures | None = None  # of a deployed model that runs


@dataclass(frozen=True)
class RoomView:
    """What jobs can still have of a device."""

    free: int  # bytes
    foreign: int  # bytes that processes outside the lab have
    held_for: str  # the waiting job for which what is free stays free, or empty
    reserve: int = 0  # bytes kept back: a driver's context and fragmentation need room too
    strangers: tuple[Process, ...] = ()  # who has what is foreign


@dataclass(frozen=True)
class ClaimView:
    """A claim as the fronts show it. User, since and askers are the kernel's word, the rest its owner's."""

    id: str
    user: str
    mine: bool
    job: str  # the job's id
    name: str
    label: str  # its notebook, its command line
    devices: tuple[str, ...]  # labels
    bytes: int  # on each
    alone: bool
    since: float  # seconds since 1970
    asked_by: tuple[str, ...]  # users who would like it released
    idle_since: float | None = None  # seconds since 1970: since when it computes nothing, by its own word
    leaves: float | None = None  # seconds since 1970: when its turn ends, by its own word

    @property
    def words(self) -> str:
        """ "your bert", "ada's gnn" """
        return f"your {self.name}" if self.mine else f"{self.user}'s {self.name}"


@dataclass(frozen=True)
class TicketView:
    """A ticket as the fronts show it, in the order of service."""

    id: str
    position: int  # 1: the head
    user: str
    mine: bool
    job: str  # the job's id
    name: str
    label: str
    wants: str  # "12.0 GiB"
    since: float  # seconds since 1970
    why: str  # what kind of reason: claims.waiting.Why, or "starting"
    reason: str
    earliest: float | None = None  # seconds since 1970, from when on it may start; null: it is about to
    latest: float | None = None  # seconds since 1970, by when it should; null: nobody can say
    expected: str = ""  # the two in words, or why none can be said


@dataclass(frozen=True)
class Status:
    """What there is to know now."""

    devices: tuple[Device, ...]
    jobs: tuple[JobView, ...]
    problem: str  # why something is missing here, or empty
    time: float  # seconds since 1970
    rooms: tuple[RoomView, ...] = ()  # of the devices, in their order
    claims: tuple[ClaimView, ...] = ()  # oldest first
    queue: tuple[TicketView, ...] = ()
    remarks: tuple[str, ...] = ()  # what whoever reads this must know of the lab

    def to_record(self) -> dict[str, Any]:
        """What JSON says of it; the room of a device stands with the device."""
        record = asdict(self)
        for device, room in zip(record["devices"], record.pop("rooms"), strict=False):
            device["room"] = room
        return record

    def to_json(self) -> str:
        return json.dumps(self.to_record(), indent=1)


@dataclass
class StatusReader:
    """Reads the status again and again; what does not change is read once. For one thread at a time."""

    _labs: dict[Path, LabReader] = field(default_factory=dict)
    _jobs: dict[Path, tuple[Job, JobPaths]] = field(default_factory=dict)
    _ended: dict[Path, tuple[tuple[int, int], JobView]] = field(default_factory=dict)

    def read(self, settings: Settings) -> Status:
        """What cannot be read is said, and does not hide the rest."""
        devices, problem = _read_devices(settings)
        now = time.time()
        try:
            lab = open_lab(settings)
            view = self._reader(lab).view(devices)
            wishes = read_wishes(lab.path, view.claims)
        except (GpufitError, OSError) as error:
            problems = [problem, f"The lab cannot be read: {error}"]
            return Status(devices, self.jobs(settings), " ".join(filter(None, problems)), now)
        return Status(
            devices,
            self.jobs(settings),
            problem,
            now,
            rooms=tuple(_room(view.rooms[device.uuid], view.held_back.get(device.uuid)) for device in devices),
            claims=_claims(view.claims, devices, wishes, view.standings),
            queue=_queue(view, now),
            remarks=view.remarks,
        )

    def jobs(self, settings: Settings) -> tuple[JobView, ...]:
        """This user's jobs, oldest first."""
        found = all_jobs(settings, self._jobs)
        self._jobs = {paths.root: (job, paths) for job, paths in found}
        return tuple(self._job(job, paths) for job, paths in found)

    def _reader(self, lab: Lab) -> LabReader:
        known = self._labs.get(lab.path)
        if known is None or known.lab != lab:
            known = self._labs[lab.path] = LabReader(lab)
        return known

    def _job(self, job: Job, paths: JobPaths) -> JobView:
        """A job that has ended is read again only if its state was written again (it was resumed)."""
        written = _written(paths)
        known = self._ended.get(paths.root)
        if known is not None and written is not None and known[0] == written:
            return known[1]
        view = _job(job, read_record(paths))
        if written is not None and view.state in ENDED and not paths.owed.exists():  # until then, it may be lost
            self._ended[paths.root] = written, view
        return view


def read_job(job: Job, paths: JobPaths) -> JobView:
    """One job, now."""
    return _job(job, read_record(paths))


def _read_devices(settings: Settings) -> tuple[tuple[Device, ...], str]:
    try:
        return tuple(read_devices(settings)), ""
    except DeviceError as error:
        return (), str(error)


def _written(paths: JobPaths) -> tuple[int, int] | None:
    try:
        found = os.stat(paths.state)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def _room(room: Room, held_for: Ticket | None) -> RoomView:
    return RoomView(
        free=room.free,
        foreign=room.space.foreign,
        held_for=f"{whose(held_for.uid, os.geteuid())} {held_for.request.name}" if held_for else "",
        reserve=room.space.reserve,
        strangers=room.space.strangers,
    )


def _claims(
    claims: Iterable[Claim],
    devices: Sequence[Device],
    wishes: Mapping[str, tuple[Wish, ...]],
    standings: Mapping[str, Standing],
) -> tuple[ClaimView, ...]:
    labels, me = {device.uuid: device.label for device in devices}, os.geteuid()
    return tuple(
        ClaimView(
            id=claim.id,
            user=user_name(claim.uid),
            mine=claim.uid == me,
            job=claim.request.job_id,
            name=claim.request.name,
            label=claim.request.label,
            devices=tuple(labels.get(uuid, uuid) for uuid in claim.hold.devices or claim.hold.among(labels)),
            bytes=claim.hold.bytes,
            alone=claim.hold.alone,
            since=claim.since / 1e9,
            asked_by=tuple(user_name(wish.uid) for wish in wishes.get(claim.id, ()) if wish.uid != claim.uid),
            idle_since=standings.get(claim.id, NOTHING).idle,
            leaves=standings.get(claim.id, NOTHING).leaves,
        )
        for claim in claims
    )


def _queue(view: LabView, now: float) -> tuple[TicketView, ...]:
    me = os.geteuid()
    return tuple(
        TicketView(
            id=ticket.id,
            position=position,
            user=user_name(ticket.uid),
            mine=ticket.uid == me,
            job=ticket.request.job_id,
            name=ticket.request.name,
            label=ticket.request.label,
            wants=wants(ticket.request),
            since=ticket.since / 1e9,
            why=waiting.why if waiting else "starting",
            reason=_reason(waiting, now),
            earliest=expected.earliest if expected else None,
            latest=expected.latest if expected else None,
            expected=expected.sentence(now) if expected else "",
        )
        for position, (ticket, waiting, expected) in enumerate(
            zip(view.queue, view.reasons, view.expected, strict=True), 1
        )
    )


def _reason(waiting: Waiting | None, now: float) -> str:
    if waiting is None:
        return "about to start"
    return waiting.reason(now) or "no device here can serve it now"


def _job(job: Job, record: Record) -> JobView:
    return JobView(
        id=job.id,
        name=job.name,
        state=record.state,
        reason=record.reason,
        since=record.since,
        created=job.created,
        pid=_pid(record),
        device=record.device,
        epoch=record.epoch,
        step=record.step,
        notebook=job.notebook,
        began=record.began,
        ran=record.ran,
        kernel_id=job.kernel_id,
        cell=job.cell,
        followed=record.live.followed,
        progress=_progress(record),
        loss=record.live.loss,
        metrics=record.live.metrics,
        mfu=record.live.mfu,
        mfu_foreseen=record.live.mfu_foreseen,
        memory=_memory(record),
        checkpoint=record.checkpoint,
        kind=job.kind,
        calls=record.live.calls if record.state in GOING else None,
    )


def _progress(record: Record) -> Progress:
    """Of a job that does not run any more there is no pace; of one that has ended, no total but what it took."""
    told = record.live.progress
    if told is None:
        return Progress(step=record.step)
    if record.state in ("running", "saving"):
        return told
    step = max(record.step, told.step)
    total = None if record.state in ENDED and told.total != step else told.total
    return replace(told, step=step, per_second=None, total=total, left=None)


def _memory(record: Record) -> Memory | None:
    """The peak is the whole job's; a process that has just begun takes nothing yet."""
    told = record.live.memory or (Memory(used=0, peak=0) if record.peak else None)
    return replace(told, peak=max(told.peak, record.peak)) if told else None


def _pid(record: Record) -> int | None:
    return record.worker.pid if record.worker is not None and record.worker.alive() else None
