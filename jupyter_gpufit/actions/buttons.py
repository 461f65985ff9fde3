"""What each button does: the very functions that the command line calls, after a look at whose job it is."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence

from ..errors import CannotNow, NoSuchHold, NoSuchJob, NotYourJob
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.store import all_jobs
from ..jobs.verbs import WORDS, Verb
from ..lab import open_lab
from ..lab.ledger import LedgerLook, LedgerReader
from ..settings import Settings
from ..system.users import user_name
from .ask import asked
from .clean import clean
from .deploy import resume_any
from .possible import why_not
from .release import release
from .status import read_job
from .stop import stop


async def on_job(settings: Settings, id: str, verb: Verb, to: str) -> AsyncIterator[str]:
    """Do it, saying each step. `to`: of a move the device, of a resume the checkpoint; empty for the best."""
    job, paths = find_mine(settings, id)
    if why := why_not(read_job(job, paths), verb):
        raise CannotNow(job.name, WORDS[verb].done, why)
    async for word in _steps(settings, job, paths, verb, to):
        yield word


def _steps(settings: Settings, job: Job, paths: JobPaths, verb: Verb, to: str) -> AsyncIterator[str]:
    match verb:
        case "stop":
            return stop(job, paths, settings.stop_patience)
        case "release":
            return release(settings, job.id, insist=False)
        case "resume":
            return resume_any(settings, job.id, back=to)
    return asked(job, paths, verb, to)


async def ask(settings: Settings, claim: str) -> AsyncIterator[str]:
    """Ask another user to release their claim."""
    snapshot = _lab(settings)
    found = next((one for one in (*snapshot.claims, *snapshot.tickets) if one.id == claim), None)
    if found is None:
        raise NoSuchHold(claim, tuple(one.id for one in snapshot.claims if one.uid != os.geteuid()))
    if found.uid == os.geteuid():
        raise CannotNow(found.request.name, "asked for", "It is yours: release it.")
    async for word in release(settings, claim, insist=False):
        yield word


async def give_up(settings: Settings, hold: str) -> AsyncIterator[str]:
    """Release what this user holds or waits for, of `gpufit run`, say: its command is asked to end."""
    snapshot = _lab(settings)
    found = next((one for one in (*snapshot.claims, *snapshot.tickets) if one.id == hold), None)
    if found is None:
        raise NoSuchHold(hold, tuple(one.id for one in snapshot.claims if one.uid == os.geteuid()))
    if found.uid != os.geteuid():
        raise NotYourJob(found.request.name, user_name(found.uid))
    async for word in release(settings, hold, insist=False):
        yield word


async def remove(settings: Settings, ids: Sequence[str]) -> AsyncIterator[str]:
    """Remove these jobs of this user's, which have ended."""
    for id in ids:
        find_mine(settings, id)
    if not ids:  # for `clean` that would be all
        yield "No job was named, so none was removed."
        return
    *_, told = clean(settings, ids)
    yield told


def find_mine(settings: Settings, id: str) -> tuple[Job, JobPaths]:
    """This user's job of this very id; a name would mean another job tomorrow."""
    jobs = all_jobs(settings)
    for job, paths in jobs:
        if job.id == id:
            return job, paths
    snapshot = _lab(settings)
    for one in (*snapshot.claims, *snapshot.tickets):
        if one.request.job_id == id and one.uid != os.geteuid():
            raise NotYourJob(one.request.name, user_name(one.uid))
    raise NoSuchJob(id, tuple(job.id for job, _ in jobs))


def _lab(settings: Settings) -> LedgerLook:
    return LedgerReader(open_lab(settings).path).read()
