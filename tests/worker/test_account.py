"""A job's last word on a disk that takes nothing any more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jupyter_gpufit.actions.status import read_job
from jupyter_gpufit.jobs.events import Entry, Event, Failure, Gap, StateChange, Text, decode_entry
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import JournalReader
from jupyter_gpufit.jobs.live import Live, Memory
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, read_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import MiB
from jupyter_gpufit.worker.account import Account

JOB = Job(id="j", name="j", source="", created=0.0, cwd="/")


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[JobPaths]:
    """On a disk of 256 KiB."""
    if os.getuid() != 0:
        pytest.skip("NEEDS ROOT: mounts a small tmpfs to fill it")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", tmp_path])
    if mounted.returncode:
        pytest.skip("CANNOT MOUNT a small tmpfs here")
    try:
        yield create_job_files(Settings(data=str(tmp_path)), JOB)
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def fill(account: Account, paths: JobPaths) -> Path:
    """Until not even the last block of a file takes a line more."""
    account.journal.give_up_reserve()
    filler = paths.root / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            pass
    for length in range(4096, 0, -16):
        account.journal.append([Text("stdout", "x" * length)])
    return filler


def told(lines: list[str]) -> list[Event]:
    entries = [decode_entry(line.encode()) for line in lines]
    return [entry.event for entry in entries if isinstance(entry, Entry)]


def test_an_end_that_the_disk_refuses_is_kept_until_it_takes_it(paths: JobPaths) -> None:
    account = Account(paths, MiB, Record(state="starting", since=0.0), lambda: 7, state="starting")
    account.report(StateChange("running"))
    filler = fill(account, paths)
    failure = Failure("KeyError", "'x'", ("KeyError",))
    account.journal.append([failure, Text("stderr", "gone")])
    account.end("failed", "KeyError")
    [gap, *rest] = told(account.unwritten)
    assert isinstance(gap, Gap) and rest == [failure, StateChange("failed", "KeyError", epoch=1)]
    assert read_record(paths).state == "failed"  # which has its place on the disk
    assert not account.write_end()
    filler.unlink()
    assert account.write_end() and not account.unwritten and account.write_end()
    account.close()
    reader = JournalReader(paths.journal)
    assert [entry.event for entry in reader.read()][-3:] == [gap, *rest]
    reader.close()


def test_the_next_process_of_a_job_counts_on(tmp_path: Path) -> None:
    """After a move, a release, a kill: for how long it ran, since when, and its peak."""
    paths = create_job_files(Settings(data=str(tmp_path)), JOB)
    first = Account(paths, MiB, Record(state="starting", since=0.0), lambda: 7, state="starting")
    first.report(StateChange("queued"))
    assert first.record.began is None and first.record.ran == 0
    first.report(StateChange("running"))
    first.far(7, Live(metrics=("loss",), memory=Memory(used=3, peak=9)))
    first.record = replace(first.record, since=first.record.since - 100)
    first.report(StateChange("moving"))
    ran, began = first.record.ran, first.record.began
    assert began is not None and 100 <= ran < 200
    first.close()

    second = Account(paths, MiB, first.record, lambda: 7, state="starting")
    second.report(StateChange("running"))
    second.far(8, Live(memory=Memory(used=1, peak=2)))
    assert (second.record.began, second.record.peak) == (began, 9) and second.record.ran >= ran
    view = read_job(JOB, paths)
    assert view.memory == Memory(used=1, peak=9) and view.ran == second.record.ran
    second.close()
