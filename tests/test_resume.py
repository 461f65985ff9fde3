"""Which jobs can be resumed, and what becomes of those that wait for it; without a worker."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit import resume
from jupyter_gpufit.asking import why_not
from jupyter_gpufit.clean import clean
from jupyter_gpufit.errors import JobBusy, NoSuchDevice, NoSuchJob, NotResumable
from jupyter_gpufit.job import Job, JobPaths, State, create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.status import read_jobs
from jupyter_gpufit.table import jobs as table_of
from jupyter_gpufit.worker.handover import Handover, note_start
from jupyter_gpufit.worker.record import (
    LastCheckpoint,
    Record,
    current_epoch,
    next_epoch,
    read_record,
    take_lock,
    write_record,
)

SAVED = LastCheckpoint(step=1204, time=1e9, bytes=1 << 30)


@pytest.fixture
def settings(folder: Path) -> Settings:
    return Settings(devices="cpu:2x4GiB", lab=f"{folder}/lab", data=f"{folder}/data", runtime=f"{folder}/run")


def a_job(settings: Settings, name: str, state: State, checkpoint: LastCheckpoint | None = SAVED) -> JobPaths:
    job = Job(id=f"{name}-id", name=name, source="pass", created=time.time(), cwd="/")
    paths = create_job_files(settings, job)
    note_start(paths, Handover(job_root=str(paths.root), cwd="/", path=[], env={}, cell_number=1))
    write_record(paths, Record(state=state, since=1e9, reason="because", checkpoint=checkpoint))
    return paths


@pytest.mark.parametrize(
    ("state", "checkpoint", "why"),
    [
        ("done", SAVED, "it has ended well"),
        ("queued", SAVED, "it is queued"),
        ("stopped", None, "it is stopped, and left no checkpoint"),
        ("released", SAVED, ""),
        ("lost", SAVED, ""),
        ("failed", SAVED, ""),
    ],
)
def test_a_job_with_a_checkpoint_that_does_not_run_can_be_resumed(
    state: State, checkpoint: LastCheckpoint | None, why: str
) -> None:
    found = resume.why_not(Record(state=state, since=0.0, checkpoint=checkpoint))
    assert why in found and bool(why) == bool(found)


def test_the_newest_that_can_be_resumed_is_meant_and_its_step_is_said(settings: Settings) -> None:
    a_job(settings, "bert", "released")
    a_job(settings, "gpt", "done")
    found = anyio.run(resume.prepare, settings, "")
    assert found.job.name == "bert" and "from step 1,204" in found.words(1e9 + 60)
    with pytest.raises(NotResumable, match="gpt cannot be resumed: it has ended well. Its output and var"):
        anyio.run(resume.prepare, settings, "gpt")
    with pytest.raises(NoSuchDevice):
        anyio.run(resume.prepare, settings, "bert", "cpu:9")


def test_with_nothing_to_resume_it_is_said(settings: Settings) -> None:
    a_job(settings, "gpt", "stopped", None)
    with pytest.raises(NoSuchJob, match="No job of yours can be resumed"):
        anyio.run(resume.prepare, settings, "")
    with pytest.raises(NotResumable, match="left no checkpoint. Run its cell again."):
        anyio.run(resume.prepare, settings, "gpt")


def test_whoever_has_the_lock_has_the_job(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    lock = take_lock(paths, "bert")
    with pytest.raises(NotResumable, match="it runs already"):
        take_lock(paths, "bert")
    os.close(lock)
    os.close(take_lock(paths, "bert"))


def test_each_start_is_an_epoch(settings: Settings) -> None:
    paths = a_job(settings, "bert", "released")
    assert current_epoch(paths) == 0
    assert [next_epoch(paths), next_epoch(paths)] == [1, 2]
    paths.checkpoints.mkdir(mode=0o700)
    assert next_epoch(paths) == current_epoch(paths) == 3


def test_a_record_keeps_its_checkpoint_and_a_killed_worker_leaves_it(settings: Settings) -> None:
    paths = a_job(settings, "bert", "running")
    found = read_record(paths)
    assert (found.state, found.checkpoint, found.resumable) == ("lost", SAVED, True)
    assert not replace(found, checkpoint=None).resumable


def test_cleaning_spares_what_waits_to_be_resumed(settings: Settings) -> None:
    for name, state in (("released", "released"), ("stopped", "stopped"), ("done", "done")):
        a_job(settings, name, state)  # type: ignore[arg-type]
    a_job(settings, "lost", "running")
    assert [word.split()[0] for word in clean(settings, [])] == ["stopped", "done", "2"]
    assert [word.split()[0] for word in clean(settings, ["released"])] == ["released", "1"]
    assert [job.name for job in read_jobs(settings)] == ["lost"]


def test_a_running_job_is_not_cleaned(settings: Settings) -> None:
    paths = a_job(settings, "bert", "running")
    lock = take_lock(paths, "bert")
    with pytest.raises(JobBusy):
        list(clean(settings, ["bert"]))
    os.close(lock)


def test_the_list_of_jobs_says_what_is_saved_and_how_to_go_on(settings: Settings) -> None:
    a_job(settings, "bert", "stopped")
    a_job(settings, "gpt", "done", None)
    listed = table_of(read_jobs(settings), 1e9 + 120)
    assert "step 1,204, 2 min ago" in listed and "`gpufit resume bert` goes on" in listed
    assert "resume gpt" not in listed


@pytest.mark.parametrize(
    ("verb", "state", "why"),
    [
        ("checkpoint", "running", ""),
        ("checkpoint", "queued", "nothing to save yet"),
        ("release", "queued", ""),  # one that was resumed: it gives up its place
        ("release", "released", "it does not run"),
        ("move", "moving", "it is moving"),
        ("move", "running", ""),
    ],
)
def test_what_can_be_asked_of_a_job(verb: str, state: State, why: str) -> None:
    found = why_not(verb, Record(state=state, since=0.0, checkpoint=SAVED))  # type: ignore[arg-type]
    assert why in found and bool(why) == bool(found)
