"""Giving a device back: one's own job is saved and leaves it; the owner of another's is asked.

Only root can insist on another's claim. A signal only ever goes to a process on whose open file the claim's lock lies,
by the kernel's word, that runs as the claim's owner, and that is still the same (pid, start time, boot).
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio

from ..errors import BadOption, JobError, LabGone, NoSuchHold, NoSuchJob, SeveralMeant
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import ENDED, OVER, in_words
from ..jobs.store import find_job
from ..lab import Claim, Lab, Ticket, open_lab
from ..lab.ledger import LedgerLook, LedgerReader
from ..lab.processes import processes_holding
from ..lab.room import lab_trouble
from ..lab.wishes import forget_old_wishes, make_wish
from ..settings import Settings
from ..system.identity import ProcessId
from ..system.users import user_name
from .ask import asked
from .stop import CANNOT_END, stop


async def release(settings: Settings, wanted: str, *, insist: bool) -> AsyncIterator[str]:
    """Release what `wanted` names, saying each step."""
    me = os.geteuid()
    try:
        lab = open_lab(settings)
        snapshot = LedgerReader(lab.path).read()
        found = choose(wanted, snapshot, me)
    except (NoSuchHold, LabGone) as unknown:  # a worker needs no lab to be asked
        async for step in _release_unclaimed(settings, wanted, unknown):
            yield step
        return
    if found.uid != me and not insist:
        yield _ask(lab, found, snapshot)
        return
    if found.uid != me and me != 0:
        owner = user_name(found.uid)
        raise BadOption(
            f"{found.request.name} is {owner}'s, and only root can insist. Without --insist, {owner} is asked."
        )
    worker = _worker(settings, found) if found.uid == me else None
    if worker is None:
        steps = end(lab.path, found, settings.stop_patience, insist=insist)
    elif insist:
        yield f"{worker[0].name} is ended unsaved; without --insist, it would be saved first."
        steps = stop(*worker, settings.stop_patience)
    else:
        steps = asked(*worker, "release")
    async for step in steps:
        yield step


def choose(wanted: str, snapshot: LedgerLook, me: int) -> Ticket:
    """The claim or ticket that is meant: by its id, its job's id or name, or user/name; one's own come first."""
    held: Sequence[Ticket] = [*snapshot.claims, *snapshot.tickets]
    user, _, name = wanted.rpartition("/")
    for meant in (
        [one for one in held if one.id == wanted],
        [one for one in held if one.uid == me and wanted in (one.request.job_id, one.request.name)],
        [one for one in held if not user and wanted in (one.request.job_id, one.request.name)],
        [one for one in held if user and user_name(one.uid) == user and one.request.name == name],
    ):
        if len({(one.uid, one.request.job_id) for one in meant}) == 1:
            return meant[0]  # one that moves has two
        if meant:
            raise SeveralMeant(wanted, tuple(f"{user_name(one.uid)}'s {one.request.name}: {one.id}" for one in meant))
    raise NoSuchHold(wanted, tuple(dict.fromkeys(one.request.name for one in held)))


async def _release_unclaimed(settings: Settings, wanted: str, unknown: NoSuchHold | LabGone) -> AsyncIterator[str]:
    """Of a job of ours that has ended, say, or does not hold its device yet."""
    try:
        job, paths = find_job(settings, wanted)
    except NoSuchJob:
        raise unknown from None
    state = read_record(paths).state
    if state in OVER:
        yield f"{job.name} holds no device: it {in_words(state)}."
        return
    async for step in asked(job, paths, "release"):
        yield step


def _ask(lab: Lab, found: Ticket, snapshot: LedgerLook) -> str:
    owner, name = user_name(found.uid), found.request.name
    if not isinstance(found, Claim):
        return f"{owner}'s {name} waits in the queue and holds no device."
    try:
        forget_old_wishes(lab.path, snapshot.claims)
        asked = make_wish(lab.path, found)
    except OSError as error:
        return f"{owner} cannot be asked here: {lab_trouble(lab, error)}. Talk to {owner}."
    if not asked:
        return f"You have already asked {owner} to release {name}. The job runs on until {owner} releases it."
    return (
        f"{owner} is asked to release {name}, in `gpufit status` and where it runs. The job runs on until {owner}"
        " releases it."
    )


def _worker(settings: Settings, found: Ticket) -> tuple[Job, JobPaths] | None:
    """The notebook job behind a claim of ours: it can be saved, and ends by its worker's own ladder."""
    try:
        job, paths = find_job(settings, found.request.job_id)
    except JobError:
        return None
    record = read_record(paths)
    if record.state in ENDED:
        return None  # the job has ended, but something that it started still holds the claim
    return (job, paths) if record.worker is not None and record.worker.alive() else None


async def end(lab: Path, found: Ticket, patience: float, *, insist: bool) -> AsyncIterator[str]:
    """SIGTERM to the process that took the lock, and, insisting, SIGKILL to all that still have it."""
    name, file = found.request.name, lab / found.id
    holders = processes_holding(file, found.uid)
    if not holders:
        yield (
            f"{name} is held by a process that cannot be seen from here (in another container, or just ended)."
            " Nothing was signalled."
        )
        return
    for rung in (signal.SIGTERM, signal.SIGKILL) if insist else (signal.SIGTERM,):
        # The one that took it passes SIGTERM on to its command; what nobody can catch, each must get itself.
        for process in holders[:1] if rung == signal.SIGTERM else holders:
            if process.signal(rung):
                yield f"{name}: {rung.name} sent to {user_name(found.uid)}'s process {process.pid}"
        await _all_ended(holders, patience)
        holders = processes_holding(file, found.uid)
        if not holders:
            yield f"{name}: released"
            return
    yield f"{name} still runs after {patience:g} s{_what_next(name, insist)}"


def _what_next(name: str, insist: bool) -> str:
    if insist:
        return f". {CANNOT_END}"
    return f"; it may be saving its work. To kill it: gpufit release --insist {name}"


async def _all_ended(processes: Sequence[ProcessId], patience: float) -> None:
    with anyio.move_on_after(patience):
        for process in processes:
            fd = process.open()
            if fd is not None:
                try:
                    await anyio.wait_readable(fd)
                finally:
                    os.close(fd)
