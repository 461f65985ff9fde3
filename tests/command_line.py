"""The terminal beside the notebook: what its user types, and what they find of their jobs."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import anyio

from jupyter_gpufit.jobs.client import connect
from jupyter_gpufit.jobs.record import Record, read_record
from jupyter_gpufit.jobs.state import ENDED
from jupyter_gpufit.jobs.store import find_job
from jupyter_gpufit.jobs.watch import changes
from jupyter_gpufit.settings import Settings
from tests import warm
from tests.kernels import TIMEOUT


def typing(env: Mapping[str, str], *arguments: str) -> subprocess.Popen[str]:
    """A command, started and not waited for."""
    return subprocess.Popen(
        [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def gpufit(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command, run to its end; it begins with its modules imported, and otherwise as one that is typed."""
    with TemporaryFile("w+") as stdout, TemporaryFile("w+") as stderr:
        process = warm.command(env, arguments, stdout.fileno(), stderr.fileno())
        try:
            code = process.wait(TIMEOUT)
        finally:
            process.kill()
        for stream in (stdout, stderr):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, stdout.read(), stderr.read())


class Listed(dict[str, dict[str, Any]]):
    """Jobs by name; a test that misses one says which there are, and what lies on the disk."""

    def __init__(self, env: Mapping[str, str], text: str) -> None:
        super().__init__({job["name"]: job for job in json.loads(text)})
        self._folder = Path(env["HOME"], ".local/share/gpufit/jobs")

    def __missing__(self, name: str) -> dict[str, Any]:
        files = {root.name: sorted(os.listdir(root)) for root in self._folder.iterdir()}
        raise AssertionError(f"no job is called {name}: listed are {[*self.items()]}, on the disk {files}")


def jobs(env: Mapping[str, str]) -> Listed:
    """The user's jobs by name, as the command lists them."""
    listed = gpufit(env, "jobs", "--json")
    assert listed.returncode == 0, listed.stderr
    return Listed(env, listed.stdout)


def until_gone(pid: int) -> None:
    """Until a process has ended, whoever's child it is."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        assert select.select([fd], [], [], TIMEOUT)[0], f"process {pid} did not end"
    finally:
        os.close(fd)


async def until_ended(home: Path, name: str) -> None:
    """Until a job of this home's user, which nobody follows, has ended well and its worker has left its variables."""

    def ended(record: Record) -> bool:
        assert record.state == "done" or record.state not in ENDED, record
        return record.state == "done" and (record.worker is None or not record.worker.alive())

    await _until(home, name, ended)


async def until_running(home: Path, name: str) -> None:
    """Until its cell has begun."""
    await _until(home, name, lambda record: record.state == "running")


async def killed_with_its_variables(home: Path, name: str, go_on: Callable[[], None]) -> None:
    """Let a job come to its end, with somebody there who does not take its variables, and kill its worker then."""
    job, paths = find_job(_settings(home), name)
    async with connect(job, read_record(paths)) as connection:
        assert (await connection.ask("follow")).ok
        go_on()
        await _until(home, name, lambda record: record.state == "done")
        worker = read_record(paths).worker
        assert worker is not None and worker.signal(signal.SIGKILL)
        await _until(home, name, lambda record: not worker.alive())


async def _until(home: Path, name: str, reached: Callable[[Record], bool]) -> None:
    _, paths = find_job(_settings(home), name)
    with anyio.fail_after(TIMEOUT):
        async with changes(paths) as looks:
            async for record in looks:
                if reached(record):
                    return


def kill_workers(below: Path) -> None:
    """End whoever holds the lock of a job in this folder, wherever in it a test has had its jobs kept."""
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid() and any(_is_a_lock(file, below) for file in _opened_by(process)):
            with suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)


def _opened_by(process: Path) -> list[Path]:
    with suppress(OSError):  # it has ended, or is another user's
        return [(process / "fd" / number).readlink() for number in os.listdir(process / "fd")]
    return []


def _is_a_lock(file: Path, below: Path) -> bool:
    return file.name == "lock" and file.parent.parent.name == "jobs" and file.is_relative_to(below)


def _settings(home: Path) -> Settings:
    return Settings(data=str(home / ".local/share/gpufit"))
