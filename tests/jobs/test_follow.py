"""Following a job whose worker left no last word, or that was released."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.jobs.control import Followers
from jupyter_gpufit.jobs.events import Entry, Event, Failure, Gap, StateChange, Text, encode_entry
from jupyter_gpufit.jobs.follow import _how_it_died, follow
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.system.identity import ProcessId
from tests.jobs.test_control import Recorded, serving

JOB = Job(id="j", name="j", source="", created=0.0, cwd="/")
RUNNING = Record(state="running", since=0.0, worker=ProcessId.of(os.getpid()))


def test_a_worker_that_never_began_did_not_end_in_the_middle_of_the_cell() -> None:
    never = _how_it_died(1, Record(state="lost", since=0.0))
    assert "worker.log" in never and "cell" not in never
    began = Record(state="lost", since=0.0, worker=ProcessId.of(os.getpid()))
    assert "exit code 1 in the middle of the cell" in _how_it_died(1, began)
    assert "was ended by SIGTERM" in _how_it_died(-15, began)
    assert "was ended by signal 40" in _how_it_died(-40, began)  # a real-time one, which has no name


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return create_job_files(Settings(data=str(tmp_path)), JOB)


def say(paths: JobPaths, state: State, epoch: int) -> None:
    write_record(paths, Record(state=state, since=0.0, epoch=epoch))
    journal = Journal(paths.journal, 1 << 20)
    journal.append([StateChange(state, epoch=epoch)])
    journal.close()


async def followed_on(paths: JobPaths, then: Callable[[], None]) -> tuple[StateChange, list[Event]]:
    """How the following of a released job ends after something, and what was shown."""
    say(paths, "released", 1)
    shown: list[Event] = []
    looked = anyio.Event()

    def show(event: Event, when: float | None = None) -> None:
        shown.append(event)
        looked.set()

    async def go_on() -> None:
        await looked.wait()  # and so not before the follower waits, too
        then()

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
            end = await follow(JOB, paths, show, on=True)
    return end, shown


@pytest.mark.anyio
async def test_a_release_is_a_pause_for_whoever_looks_on(paths: JobPaths) -> None:
    end, shown = await followed_on(paths, lambda: say(paths, "done", 2))
    assert end == shown[-1] == StateChange("done", epoch=2) and len(shown) == 2


@pytest.mark.anyio
async def test_a_released_job_that_is_deleted_is_followed_no_longer(paths: JobPaths) -> None:
    end, _ = await followed_on(paths, lambda: shutil.rmtree(paths.root))
    assert end.state == "released"


@pytest.mark.anyio
async def test_an_end_that_no_file_could_take_is_heard_from_the_worker(paths: JobPaths, tmp_path: Path) -> None:
    write_record(paths, running := replace(RUNNING, epoch=1, socket=str(tmp_path / "s")))
    journal = Journal(paths.journal, 1 << 20)
    journal.append([Text("stdout", "written")])
    end = StateChange("failed", epoch=1)
    last: list[Event] = [Gap(3, "No space left on device"), Failure("KeyError", "'x'", ("KeyError",)), end]
    lines = [encode_entry(Entry(2 + at, 0.0, event)).decode() for at, event in enumerate(last)]
    worker = Recorded(unwritten=["{", "7", *lines])  # what cannot be read is passed over, as in the journal itself
    shown: list[Event] = []
    lock, followers = take_lock(paths, "j"), Followers()
    with anyio.fail_after(300):
        async with serving(Path(running.socket), worker, followers):
            assert await follow(JOB, paths, lambda event, when=None: shown.append(event)) == end
            gone = anyio.Event()
            followers.on_change = gone.set
            if followers.count:
                await gone.wait()
    os.close(lock)
    journal.close()
    assert shown == [Text("stdout", "written"), *last]


@pytest.mark.anyio
async def test_a_journal_without_an_end_whose_worker_is_gone_ends_as_the_record_says(paths: JobPaths) -> None:
    write_record(paths, Record(state="done", since=0.0, epoch=3))
    journal = Journal(paths.journal, 1 << 20)
    journal.append([StateChange("released", epoch=1), StateChange("running", epoch=2)])
    journal.close()
    with anyio.fail_after(300):
        assert await follow(JOB, paths, lambda event, when=None: None) == StateChange("done", epoch=3)


@pytest.fixture
def ending(paths: JobPaths) -> Iterator[subprocess.Popen[str]]:
    """A process that puts a result on the disk once it reads a line, and ends."""
    writes = "import pathlib, sys; sys.stdin.readline(); pathlib.Path(sys.argv[1]).mkdir()"
    command = [sys.executable, "-c", writes, str(paths.result)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.anyio
async def test_a_result_that_is_still_being_written_is_waited_for(
    paths: JobPaths, ending: subprocess.Popen[str]
) -> None:
    """A worker says that its job is done, and puts the variables on the disk after that."""
    say(paths, "done", 1)
    write_record(paths, Record(state="done", since=0.0, epoch=1, worker=ProcessId.of(ending.pid)))
    shown = anyio.Event()

    async def look_on() -> None:
        await follow(JOB, paths, lambda event, when=None: shown.set(), take=lambda found, counts: None)
        assert paths.result.exists()

    with anyio.fail_after(300):
        async with anyio.create_task_group() as group:
            group.start_soon(look_on)
            await shown.wait()
            await anyio.wait_all_tasks_blocked()
            assert ending.stdin is not None
            ending.stdin.write("\n")
            ending.stdin.flush()
