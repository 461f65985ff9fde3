"""What a look at a job's record takes away: the socket of a worker that was killed, and of no other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, read_record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.identity import ProcessId


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="j", source="", created=0.0, cwd="/"))


@contextmanager
def worker(paths: JobPaths, bound: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the job and its socket, as the record says."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(bound))
    lock = take_lock(paths, "j")
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock]) as process:
        os.close(lock)
        record = Record(state="running", since=0.0, worker=ProcessId.of(process.pid), socket=str(bound))
        write_record(paths, record)
        yield process
        process.kill()


def test_the_socket_of_a_killed_worker_goes_with_the_first_look(paths: JobPaths, tmp_path: Path) -> None:
    with worker(paths, bound := tmp_path / "j.sock") as process:
        assert read_record(paths).state == "running" and bound.exists()
        process.kill()
        process.wait()
        assert read_record(paths).state == "lost" and not bound.exists()
        assert read_record(paths).state == "lost"


def test_that_of_the_worker_that_goes_on_stays(paths: JobPaths, tmp_path: Path) -> None:
    with worker(paths, bound := tmp_path / "j.sock") as process:
        process.kill()
        process.wait()
        lock = take_lock(paths, "j")  # it has written nothing yet
        assert read_record(paths).state == "running" and bound.exists()
        os.close(lock)


@pytest.mark.parametrize("what", ["a name of another job", "a file", "that of a process that lives"])
def test_what_is_not_certainly_its_socket_stays(paths: JobPaths, tmp_path: Path, what: str) -> None:
    with worker(paths, bound := tmp_path / ("k.sock" if what == "a name of another job" else "j.sock")) as process:
        process.kill()
        process.wait()
        if what == "a file":
            bound.unlink()
            bound.touch()
        if what == "that of a process that lives":
            write_record(paths, replace(read_left(paths), worker=ProcessId.of(os.getpid())))
        assert read_record(paths).state == "lost" and bound.exists()


def read_left(paths: JobPaths) -> Record:
    return Record.from_json(paths.state.read_text())
