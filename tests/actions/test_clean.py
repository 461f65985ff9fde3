"""What cleaning takes away beside the files of jobs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from jupyter_gpufit.actions.clean import clean
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings


def bound(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.bind(str(path))
    return found


@pytest.mark.parametrize("named", [False, True], ids=["all", "by its name"])
def test_the_sockets_of_killed_workers_go_and_those_of_living_ones_stay(tmp_path: Path, named: bool) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    settings = Settings(data=str(tmp_path / "data"), runtime=str(run))
    for name in ("killed", "alive"):
        paths = create_job_files(settings, Job(id=name, name=name, source="", created=0.0, cwd="/"))
        write_record(paths, Record(state="running", since=0.0))
    lock = take_lock(paths, "alive")  # whose socket is bound, and does not listen yet
    for name in ("killed", "alive", "removed"):
        bound(run / f"{name}.sock").close()
    with bound(run / "listens.sock") as answers:
        answers.listen()
        assert list(clean(settings, ["killed"] if named else []))[-1].startswith("1 job removed")
        assert sorted(file.name for file in run.iterdir()) == ["alive.sock", "listens.sock"]
    os.close(lock)
