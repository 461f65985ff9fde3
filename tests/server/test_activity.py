"""What Jupyter, and with it JupyterHub, is told of the activity of this user's jobs."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from jupyter_gpufit.actions.status import JobView
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.live import CallFigures, Live, Progress
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.server.activity import LONGEST_STEP, Work
from jupyter_gpufit.settings import Settings
from tests.server.running import PATIENCE, Server

LONG = 10 * LONGEST_STEP
VIEW = JobView(
    id="abcdef", name="bert", state="running", reason="", since=0.0, created=0.0, pid=1, device="0", epoch=1, step=0,
    notebook="",
)  # fmt: skip


def at(step: int) -> JobView:
    return replace(VIEW, progress=Progress(step=step))


def test_a_training_is_at_work_as_long_as_it_makes_steps() -> None:
    work = Work()

    assert work.last([at(1)], LONG) == 0.0, "since it began, for all that is known"
    assert work.last([at(2)], 2 * LONG) == 2 * LONG
    assert work.last([at(2)], 2 * LONG + LONGEST_STEP - 1) == 2 * LONG + LONGEST_STEP - 1, "a long step"
    assert work.last([at(2)], 3 * LONG) == 2 * LONG, "an idle claim: since its last step"
    assert work.last([at(3)], 4 * LONG) == 4 * LONG


@pytest.mark.parametrize("state", ["estimating", "queued", "starting", "saving", "moving"])
def test_who_waits_or_saves_is_at_work(state: str) -> None:
    work, job = Work(), replace(VIEW, state=state)  # type: ignore[arg-type]

    assert [work.last([job], now) for now in (LONG, 2 * LONG)] == [LONG, 2 * LONG]


def test_a_deployed_model_is_at_work_as_long_as_somebody_calls_it() -> None:
    work = Work()
    called = replace(VIEW, kind="model", calls=CallFigures(per_second=2.0))
    quiet = replace(called, calls=CallFigures(per_second=0.0))

    assert [work.last([called], now) for now in (LONG, 2 * LONG, 3 * LONG)] == [LONG, 2 * LONG, 3 * LONG]
    assert work.last([quiet], 4 * LONG) == 4 * LONG
    assert work.last([quiet], 5 * LONG) == 4 * LONG


def test_jobs_that_ended_are_no_work() -> None:
    assert Work().last([replace(VIEW, state=state) for state in ("done", "released", "lost")], LONG) is None


def last_activity(server: Server) -> float:
    answer = server.ask("GET", "/a%40b/api/status")
    return datetime.fromisoformat(answer.body["last_activity"]).timestamp()


@pytest.mark.slow(15)
def test_the_server_says_so(server: Server, home: Path) -> None:
    settings = Settings(data=str(home / ".local" / "share" / "gpufit"))
    paths = create_job_files(settings, Job(id="active", name="bert", source="", created=time.time(), cwd="/"))
    lock, deadline = take_lock(paths, "bert"), time.monotonic() + PATIENCE
    running = Record(state="running", since=time.time(), live=Live(progress=Progress(step=1)))
    write_record(paths, running)
    began = time.time()
    while last_activity(server) < began:
        assert time.monotonic() < deadline
    write_record(paths, replace(running, state="done"))
    os.close(lock)

    quiet = server.status()["time"]
    while last_activity(server) > quiet:
        assert time.monotonic() < deadline, "a page that looks is nobody at work, nor is a job that has ended"
        quiet = server.status()["time"]
