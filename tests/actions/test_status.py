"""One reading for every front: what it says, what it costs to ask again, and what cannot hide the rest."""

from __future__ import annotations

import fcntl
import json
import signal
from pathlib import Path

import pytest

from jupyter_gpufit.actions import status as status_module
from jupyter_gpufit.actions import table
from jupyter_gpufit.actions.status import Status, StatusReader
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.live import Live, Progress
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, read_record, write_record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.lab.published import Published, publish
from jupyter_gpufit.lab.record import Hold, Request
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB
from tests.people import ADA, BOB, Town

LONG_AGO = 1_000_000_000.0


@pytest.fixture
def settings(folder: Path) -> Settings:
    """Two slots, and everything else in a folder of its own."""
    return Settings(devices="cpu:2x4GiB", lab=f"{folder}/lab", data=f"{folder}/data", runtime=f"{folder}/run")


def hold(settings: Settings, name: str, *devices: str, bytes: int = 4 * GiB, alone: bool = True) -> Published:
    request = Request(job_id=name, name=name, label=f"{name}.ipynb", needed=None if alone else bytes)
    return publish(Path(settings.lab), request, Hold(devices=devices, bytes=bytes, alone=alone))


def wait(settings: Settings, name: str, needed: int | None = None, count: int = 1) -> Published:
    return publish(Path(settings.lab), Request(job_id=name, name=name, needed=needed, count=count))


def test_an_empty_lab(settings: Settings) -> None:
    status = StatusReader().read(settings)
    assert [room.free for room in status.rooms] == [4 * GiB, 4 * GiB]
    assert (status.claims, status.queue, status.jobs, status.problem) == ((), (), (), "")
    assert status.remarks == ()  # claims are private, and nobody else would share a slot


def test_who_holds_what_and_who_waits_why(settings: Settings) -> None:
    StatusReader().read(settings)  # makes the lab
    held = hold(settings, "bert", "cpu:0", bytes=3 * GiB, alone=False)
    waits = wait(settings, "both", count=2)
    behind = wait(settings, "small", needed=1 * GiB)
    status = StatusReader().read(settings)
    [claim] = status.claims
    assert (claim.name, claim.devices, claim.bytes, claim.alone, claim.mine) == (
        "bert",
        ("cpu:0",),
        3 * GiB,
        False,
        True,
    )
    assert (claim.label, claim.id) == ("bert.ipynb", held.id)
    assert [(ticket.position, ticket.name, ticket.wants) for ticket in status.queue] == [
        (1, "both", "2 whole devices"),
        (2, "small", "1.0 GiB"),
    ]
    first, second = status.queue
    assert "your bert (bert.ipynb) has held cpu:0 (3.0 GiB)" in first.reason and first.why == "held"
    assert "there is room, but" in second.reason and second.why == "turn"
    assert [room.held_for for room in status.rooms] == ["", "your both"]
    shown = table.status(status)
    for words in ("bert.ipynb", "1.0 GiB", "kept for", "2 whole devices", claim.id):
        assert words in shown
    for file in (held, waits, behind):
        file.drop()


def test_its_json_has_what_programs_read(settings: Settings) -> None:
    StatusReader().read(settings)
    held = hold(settings, "bert", "cpu:1")
    record = json.loads(StatusReader().read(settings).to_json())
    assert {"devices", "claims", "queue", "jobs", "problem", "remarks", "time"} == set(record)
    assert [device["room"]["free"] for device in record["devices"]] == [4 * GiB, 0]
    assert record["claims"][0]["devices"] == ["cpu:1"]
    held.drop()


def test_devices_that_cannot_be_read_do_not_hide_the_rest(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    from jupyter_gpufit.errors import NoDevice

    def fail(settings: Settings) -> None:
        raise NoDevice("the driver is not loaded.")

    StatusReader().read(settings)
    held = hold(settings, "bert", "cpu:1")
    monkeypatch.setattr(status_module, "read_devices", fail)
    status = StatusReader().read(settings)
    assert "the driver is not loaded" in status.problem
    assert [claim.name for claim in status.claims] == ["bert"]
    assert "bert" in table.status(status) and "the driver is not loaded" in table.status(status)
    held.drop()


def test_a_lab_that_cannot_be_read_does_not_hide_the_devices(settings: Settings) -> None:
    Path(settings.lab).mkdir(mode=0o777)
    Path(settings.lab).chmod(0o777)  # anybody could remove anybody's claims
    status = StatusReader().read(settings)
    assert len(status.devices) == 2 and "cannot be the lab" in status.problem
    assert "cpu:0" in table.status(status) and "cannot be the lab" in table.status(status)
    assert [device["label"] for device in status.to_record()["devices"]] == ["cpu:0", "cpu:1"]


def test_a_job_that_has_ended_is_read_once_and_again_when_it_goes_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(id="abc123", name="digits", source="", created=0.0, cwd="/")
    paths = create_job_files(settings, job)
    write_record(paths, Record(state="done", since=LONG_AGO))
    reader, read = StatusReader(), []

    def counting(paths: JobPaths) -> Record:
        read.append(paths)
        return read_record(paths)

    monkeypatch.setattr(status_module, "read_record", counting)
    states = [reader.jobs(settings)[0].state for _ in range(3)]
    assert states == ["done"] * 3 and len(read) == 1
    write_record(paths, Record(state="failed", since=LONG_AGO))
    assert reader.jobs(settings)[0].state == "failed"


def test_a_job_that_is_done_can_be_lost_until_its_variables_are_given(settings: Settings) -> None:
    paths = create_job_files(settings, Job(id="asrf4c", name="owing", source="", created=0.0, cwd="/"))
    write_record(paths, Record(state="done", since=LONG_AGO))
    paths.owed.touch()
    reader = StatusReader()
    with paths.lock.open("w") as worker:
        fcntl.flock(worker, fcntl.LOCK_EX)
        assert [job.state for job in reader.read(settings).jobs] == ["done"]
    [lost] = reader.read(settings).jobs  # it was killed, and its state was not written again
    assert lost.state == "lost" and lost.reason.endswith("before its variables were in a notebook or on the disk")


def test_a_neighbours_words_are_one_line_without_control_characters(settings: Settings) -> None:
    StatusReader().read(settings)
    held = hold(settings, "\x1b[2Jbert\nroot", "cpu:1")
    assert "\x1b" not in table.status(StatusReader().read(settings))
    held.drop()


def test_nobody_waits() -> None:
    assert table.queue(Status((), (), "", LONG_AGO)) == "Nobody waits."


@pytest.mark.slow
def test_all_users_see_the_same_and_each_their_own(shared_town: Town) -> None:
    shared_town.holds("hers", "--gpus", "2", uid=ADA)
    waiting = shared_town.types("run", "--name", "his", "--", "true", uid=BOB)
    waiting.hear("you are 1st of 1")
    seen = {uid: json.loads(shared_town.asks("status", "--json", uid=uid)) for uid in (ADA, BOB)}
    for record in seen.values():
        assert [claim["user"] for claim in record["claims"]] == [f"uid {ADA}"]
        assert [ticket["user"] for ticket in record["queue"]] == [f"uid {BOB}"]
        assert record["remarks"] == []
    assert [seen[uid]["claims"][0]["mine"] for uid in (ADA, BOB)] == [True, False]
    assert seen[BOB]["queue"][0]["mine"]
    shown = shared_town.asks("queue", uid=ADA)
    assert f"1.  uid {BOB}" in shown and "your hers (bash" in shown and "has held cpu:0 and cpu:1" in shown


@pytest.mark.slow
def test_watching_goes_on_until_ctrl_c(town: Town) -> None:
    watching = town.types("status", "--watch")
    watching.hear("You have no running jobs.")
    job = town.holds("bert")
    watching.hear("bert")
    watching.signal(signal.SIGINT)
    assert watching.end() == 0 and "Traceback" not in watching.err.text
    job.signal(signal.SIGTERM)
    refused = town.types("status", "--watch", "--json")
    assert refused.end() == 2 and "--watch shows a table" in refused.err.text


@pytest.mark.parametrize(("state", "total"), [("done", None), ("failed", None), ("released", 45)])
def test_a_job_that_has_ended_has_no_other_total_than_its_steps(state: State, total: int | None) -> None:
    live = Live(progress=Progress(step=47, per_second=2.0, total=45, left=0.0))
    told = status_module._progress(Record(state=state, since=LONG_AGO, step=48, live=live))
    assert told == Progress(step=48, total=total)
    live = Live(progress=Progress(step=47, per_second=2.0, total=48, left=0.5))
    told = status_module._progress(Record(state=state, since=LONG_AGO, step=48, live=live))
    assert told == Progress(step=48, total=48)
