"""Commands of `gpufit run` among one's jobs: they hold claims and have no files, and can only be ended.

A name that no job has is looked for in the lab, before it is said that there is none.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from textwrap import fill

from ..errors import GpufitError, IsACommand, NoSuchHold, NoSuchJob, NotYourJob
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record
from ..jobs.state import OVER
from ..jobs.store import all_jobs, find_job
from ..lab import Claim, Ticket, open_lab
from ..lab.ledger import LedgerReader
from ..settings import Settings
from ..system.users import user_name
from .release import choose, end
from .stop import stop as stop_worker

_OF_JOBS = ("attach", "checkpoint", "checkpoint show", "move", "resume")


def mine(settings: Settings) -> list[Ticket]:
    """This user's commands that hold a device, and then those that wait for one.

    None where the lab cannot be read, which is for `gpufit status` to say.
    """
    try:
        snapshot = LedgerReader(open_lab(settings).path).read()
    except (GpufitError, OSError):
        return []
    held, known = (*snapshot.claims, *snapshot.tickets), {job.id for job, _ in all_jobs(settings)}
    return [one for one in held if one.uid == os.geteuid() and one.request.job_id not in known]


def listed(commands: list[Ticket], width: int = 0) -> str:
    """A sentence about them, below the list of jobs, in so many characters; empty without any."""
    if not commands:
        return ""
    does = (f"{one.request.name} ({'runs' if isinstance(one, Claim) else 'waits'})" for one in commands)
    said = f"Of `gpufit run`: {', '.join(does)}. `gpufit status` says more, `gpufit stop NAME` ends one."
    return fill(said, width, break_on_hyphens=False) if width else said


def check(options: argparse.Namespace, settings: Settings) -> None:
    """Refuse for a command what can only be done with a job; that there is neither, the verb itself says."""
    if options.verb not in _OF_JOBS or not options.job:
        return
    try:
        find_job(settings, options.job)
    except NoSuchJob:
        for one in mine(settings):
            if options.job in (one.id, one.request.job_id, one.request.name):
                raise IsACommand(one.request.name) from None


async def stop(settings: Settings, wanted: str) -> AsyncIterator[str]:
    """End what is meant, saying each step: a job by its worker's ladder, a command by signals."""
    meant = _meant(settings, wanted)
    if isinstance(meant, Ticket):
        patience = settings.stop_patience
        yield f"{meant.request.name} is a command of `gpufit run`: it is asked to end, and killed after {patience:g} s."
        steps = end(open_lab(settings).path, meant, patience, insist=True)
    else:
        steps = stop_worker(*meant, settings.stop_patience)
    async for step in steps:
        yield step


def _meant(settings: Settings, wanted: str) -> Ticket | tuple[Job, JobPaths]:
    """A job by its name or id; a command also where it has the name of a job that has ended."""
    commands = [one for one in mine(settings) if wanted in (one.id, one.request.job_id, one.request.name)]
    try:
        job, paths = find_job(settings, wanted)
    except NoSuchJob as unknown:
        return commands[0] if len(commands) == 1 else _in_the_lab(settings, wanted, unknown)
    over = read_record(paths).state in OVER
    return commands[0] if over and len(commands) == 1 else (job, paths)


def _in_the_lab(settings: Settings, wanted: str, unknown: NoSuchJob) -> Ticket | tuple[Job, JobPaths]:
    """What else holds a device under this name; raises what there is to say of it."""
    try:
        meant = choose(wanted, LedgerReader(open_lab(settings).path).read(), os.geteuid())
    except NoSuchHold:
        raise unknown from None
    if meant.uid != os.geteuid():
        raise NotYourJob(meant.request.name, user_name(meant.uid))
    return find_job(settings, meant.request.job_id)  # by the id of its claim
