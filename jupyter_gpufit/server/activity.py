"""Tells Jupyter when this user's jobs were last at work, so that a culler leaves a server whose training runs.

Jupyter's server takes each of its settings whose name ends with `_last_activity` for activity, and JupyterHub asks it.
A job that waits for its turn is at work, and one that makes steps. One that only holds a device is not: its server goes
as if nobody were there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tornado.ioloop import PeriodicCallback

from ..actions.status import JobView, StatusReader
from ..jobs.state import BEFORE, GOING, State
from ..settings import Settings
from ..system.background import aside

log = logging.getLogger(__name__)

EVERY = 60.0  # seconds between two looks; JupyterHub's own is 300
LONGEST_STEP = 1800.0  # seconds in which a running job that makes no step is believed to be in one
KEY = "gpufit_last_activity"


@dataclass(frozen=True)
class WorkMark:
    """How far a job was at a look."""

    state: State
    epoch: int
    step: int
    calls: float
    seen: float  # seconds since 1970: since when it was so


@dataclass
class Work:
    """When jobs were last at work, from one look to the next; no clock, no disk."""

    _marks: dict[str, WorkMark] = field(default_factory=dict)

    def last(self, jobs: Iterable[JobView], now: float) -> float | None:
        """Seconds since 1970; None: nothing is under way."""
        marks = {job.id: self._mark(job, now) for job in jobs if job.state in BEFORE | GOING}
        self._marks = marks
        return max((_last(mark, now) for mark in marks.values()), default=None)

    def _mark(self, job: JobView, now: float) -> WorkMark:
        calls = job.calls.per_second + job.calls.waiting if job.calls else 0.0
        before = self._marks.get(job.id)
        mark = WorkMark(job.state, job.epoch, job.progress.step, calls, now if before or calls else job.since)
        return before if before is not None and not calls and _same(before, mark) else mark


def _same(one: WorkMark, other: WorkMark) -> bool:
    return (one.state, one.epoch, one.step, one.calls) == (other.state, other.epoch, other.step, other.calls)


def _last(mark: WorkMark, now: float) -> float:
    return now if mark.state != "running" or now - mark.seen < LONGEST_STEP else mark.seen


class ActivityReport:
    """Looks every minute, in a thread, and notes in the server's settings what it found."""

    def __init__(self, settings: Callable[[], Settings], server: dict[str, Any]) -> None:
        self._settings = settings
        self._server = server
        self._reader = StatusReader()
        self._work = Work()

    def begin(self) -> None:
        PeriodicCallback(self.look, EVERY * 1e3).start()

    async def look(self) -> None:
        try:
            jobs = await aside(lambda: self._reader.jobs(self._settings()))
        except Exception:  # the outermost frame of a look: the next one may do better
            log.warning(
                "Whether jobs are at work could not be read; a culler may take this server for idle", exc_info=True
            )
            return
        last = self._work.last(jobs, datetime.now(UTC).timestamp())
        if last is not None:
            self._server[KEY] = datetime.fromtimestamp(last, UTC)
