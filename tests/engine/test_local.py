"""Giving a job to a worker, where that fails."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.engine.local import WaitingWorker
from jupyter_gpufit.errors import NotResumable, StorageError
from jupyter_gpufit.jobs.handover import Handover, note_start, noted_start
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import LastCheckpoint, Record, read_record, take_lock, write_record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system import processes
from tests.warm import cold_start

pytestmark = pytest.mark.slow  # each starts the process that would have the job

JOB = Job(id="bert-id", name="bert", source="pass", created=0.0, cwd="/")


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    """Of a job that was released."""
    paths = create_job_files(Settings(data=str(tmp_path)), JOB)
    note_start(paths, Handover(job_root=str(paths.root), cwd="/", path=[], env={}, cell_number=1))
    write_record(paths, Record(state="released", since=1.0, checkpoint=LastCheckpoint(step=1, time=1.0, bytes=1)))
    return paths


def in_the_way(paths: JobPaths) -> None:
    """Let it be impossible to note how the job is started, as on a full disk."""
    paths.start.unlink()
    paths.start.mkdir()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[WaitingWorker]:
    """Also where no temporary file can be made, as on a full disk."""
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    waiting = WaitingWorker.spawn(os.environ)
    yield waiting
    waiting.dismiss()


def test_its_threads_sleep_between_two_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "start", cold_start)
    waiting = WaitingWorker.spawn({name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"})
    environ = Path(f"/proc/{waiting.started.process.pid}/environ")
    while not (found := environ.read_bytes()):  # the kernel shows it a moment after the exec that Popen waits for
        assert waiting.started.exit_code() is None
    assert b"OMP_WAIT_POLICY=PASSIVE" in found.split(b"\0")
    waiting.dismiss()


def test_a_resume_that_fails_gives_the_jobs_lock_back(paths: JobPaths, waiting: WaitingWorker) -> None:
    start = noted_start(paths)
    in_the_way(paths)

    with pytest.raises(StorageError, match="cannot be written"):
        waiting.give_again(JOB, paths, start)

    assert read_record(paths).state == "released"
    os.close(take_lock(paths, JOB.name))  # this process goes on living, as a notebook's kernel does


def test_a_resume_of_a_job_that_somebody_has_leaves_it_alone(paths: JobPaths, waiting: WaitingWorker) -> None:
    lock = take_lock(paths, JOB.name)
    with pytest.raises(NotResumable, match="it runs already"):
        waiting.give_again(JOB, paths, noted_start(paths))
    assert read_record(paths).state == "released"
    os.close(lock)


def test_a_start_that_fails_gives_the_jobs_lock_back(paths: JobPaths, waiting: WaitingWorker) -> None:
    in_the_way(paths)
    with pytest.raises(StorageError, match="cannot be written"):
        waiting.give(JOB, paths, [], 1)
    os.close(take_lock(paths, JOB.name))


def test_a_resume_prepared_before_another_one_has_ended_well_undoes_nothing(
    paths: JobPaths, waiting: WaitingWorker
) -> None:
    prepared = noted_start(paths)
    paths.result.mkdir()
    write_record(paths, Record(state="done", since=2.0, checkpoint=LastCheckpoint(step=1, time=1.0, bytes=1)))

    with pytest.raises(NotResumable, match="it is done by now. What it did: %gpufit attach bert"):
        waiting.give_again(JOB, paths, prepared)

    assert read_record(paths).state == "done" and paths.result.exists()
    os.close(take_lock(paths, JOB.name))


def test_a_lost_job_is_gone_on_with(paths: JobPaths, waiting: WaitingWorker) -> None:
    saved = LastCheckpoint(step=1, time=1.0, bytes=1)
    write_record(paths, Record(state="running", since=2.0, checkpoint=saved))  # by a worker that was killed
    waiting.give_again(JOB, paths, noted_start(paths))
    assert read_record(paths).checkpoint == saved


@pytest.mark.parametrize(
    ("state", "goes_back", "alive_until"),
    [("released", False, 0.0), ("released", True, 5e8), ("running", False, 5e8), ("failed", False, 5e8)],
)
def test_until_when_a_training_was_alive_is_noted_where_it_went_on_after_what_it_goes_on_from(
    paths: JobPaths, waiting: WaitingWorker, state: State, goes_back: bool, alive_until: float
) -> None:
    earlier = LastCheckpoint(step=1, time=1.0, bytes=1)
    saved = LastCheckpoint(step=9, time=2.0, bytes=1)
    write_record(paths, Record(state=state, since=3.0, checkpoint=saved))
    os.utime(paths.state, (5e8, 5e8))

    waiting.give_again(JOB, paths, noted_start(paths), (lambda: earlier) if goes_back else None)

    assert noted_start(paths).alive_until == alive_until
    assert read_record(paths).checkpoint == (earlier if goes_back else saved)
