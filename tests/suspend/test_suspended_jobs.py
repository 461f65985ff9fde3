"""Releases whose process stays, suspended, and resumes that wake it: real kernels and workers, a stand-in's driver."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import gpufit, jobs, typing, until_gone
from tests.held_training import CELL, DIGEST, SET_UP, started
from tests.kernels import TIMEOUT, Kernel, environment

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]

FAKE_CUDA = Path(__file__).resolve().parents[1] / "fake_cuda"


@dataclass
class StandIn:
    """The driver's stand-in, as its tests see it."""

    folder: Path

    def forget(self) -> None:
        for name in ("said", "fails", "hangs"):
            (self.folder / name).unlink(missing_ok=True)

    def fails(self, call: str) -> None:
        (self.folder / "fails").write_text(call)

    @property
    def said(self) -> list[str]:
        return (self.folder / "said").read_text().splitlines()


@pytest.fixture(scope="module")
def folder(home: Path) -> Path:
    folder = home / "driver"
    folder.mkdir()
    return folder


@pytest.fixture
def driver(folder: Path) -> Iterator[StandIn]:
    stand_in = StandIn(folder)
    stand_in.forget()
    yield stand_in


@pytest.fixture(scope="module")
def env(home: Path, folder: Path) -> dict[str, str]:
    return environment(
        home,
        PYTHONPATH=os.pathsep.join(filter(None, [str(FAKE_CUDA), os.environ.get("PYTHONPATH", "")])),
        STAND_IN_DRIVER=str(folder),
        GPUFIT_DRIVER_SUSPEND="1",
        GPUFIT_SPARE_WORKER="1",
        GPUFIT_ESTIMATE_LIMIT="0",
    )


@pytest.fixture(scope="module")
def plain(kernel: Kernel) -> str:
    """What the kernel itself makes of the cell."""
    kernel.check(SET_UP + CELL.format(hold="/"))
    return kernel.check(DIGEST).stdout


@pytest.fixture
def hold(home: Path, request: pytest.FixtureRequest) -> Path:
    """While this file is not there, the cell stands at its 14th step."""
    return home / f"go-on-{request.node.name}"


def resumed(kernel: Kernel, name: str, until: str = "running on", options: str = "") -> str:
    """The cell in which it goes on, once `until` stands there."""
    sent = kernel.send(f"%gpufit resume {options} {name}")
    kernel.until(sent, until)
    return sent


def released(kernel: Kernel, env: dict[str, str], name: str, sent: str) -> dict[str, Any]:
    """Released again, and suspended."""
    said = gpufit(env, "release", name)
    assert said.returncode == 0, said.stderr
    ran = kernel.finish(sent)
    assert ran.released and f"{name} leaves its device and stays in the host's memory" in ran.shown, ran
    job = jobs(env)[name]
    assert job["state"] == "released" and job["pid"] is not None
    assert json.loads(gpufit(env, "status", "--json").stdout)["claims"] == []
    return job


@pytest.mark.slow(10)
def test_the_same_process_goes_on_on_the_other_slot_to_the_same_result(
    kernel: Kernel, env: dict[str, str], home: Path, plain: str, hold: Path, driver: StandIn
) -> None:
    job = released(kernel, env, "stays", started(kernel, "stays", hold, "--gpu cpu:0"))
    assert "its suspended process is ended; its checkpoint stays" in gpufit(env, "stop", "stays").stdout
    until_gone(job["pid"])
    assert jobs(env)["stays"]["state"] == "released"
    before = released(kernel, env, "stays", resumed(kernel, "stays", options="--gpu cpu:0"))
    assert before["pid"] != job["pid"]
    holding = typing(env, "run", "--gpu", "cpu:0", "--name", "other", "--", "bash", "-c", "echo holding; sleep 600")
    assert holding.stdout is not None and holding.stdout.readline() == "holding\n"
    sent = kernel.send("%gpufit resume --gpu cpu:0 stays")
    kernel.until(sent, "has held cpu:0")
    assert gpufit(env, "release", "stays").returncode == 0  # it gives up its place, and rests on
    assert kernel.finish(sent).released
    before = jobs(env)["stays"] | {"pid": before["pid"]}
    holding.terminate()
    holding.communicate(timeout=TIMEOUT)
    driver.forget()
    resuming = [typing(env, "resume", "--gpu", "cpu:1", "stays") for _ in range(2)]
    said = [one.communicate(timeout=TIMEOUT) for one in resuming]
    assert sorted(one.returncode for one in resuming) == [0, 2], said
    root = home / f".local/share/gpufit/jobs/{before['id']}"
    told = [json.loads(line) for line in (root / "journal.jsonl").read_text().splitlines()]
    [at] = [told.index(one) for one in told if "leaves its device" in one.get("text", "")][-1:]
    assert told[at + 1]["kind"] == "state"  # and no figure of the device: to ask would be to wait for the driver
    assert any("stays was suspended, and its process goes on." in stdout for stdout, _ in said), said
    job = jobs(env)["stays"]
    assert (job["pid"], job["epoch"], job["device"]) == (before["pid"], before["epoch"] + 1, "cpu:1"), said
    assert driver.said == ["restore cpu:0=cpu:1 cpu:1=cpu:0", "unlock"]
    assert "saved at step 14" in gpufit(env, "checkpoint", "stays").stdout  # by a writer of the new epoch
    assert gpufit(env, "release", "stays").returncode == 0
    hold.touch()
    ran = kernel.check("%gpufit resume stays")
    assert ran.stdout.startswith("step 15\n") and ran.stdout.endswith("step 30\n")
    assert "the driver brought it back in" in ran.shown
    found = jobs(env)["stays"]
    assert (found["state"], found["epoch"]) == ("done", before["epoch"] + 2)
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")


@pytest.mark.slow(10)
def test_where_the_driver_fails_or_the_process_is_gone_the_disk_has_the_job(
    kernel: Kernel, env: dict[str, str], plain: str, hold: Path, driver: StandIn
) -> None:
    driver.fails("checkpoint")
    sent = started(kernel, "fails", hold)
    assert gpufit(env, "release", "fails").returncode == 0
    ran = kernel.finish(sent)
    assert ran.released and "released at step 14; `%gpufit resume fails` goes on" in ran.shown
    assert "fails does not stay in the host's memory: suspend: RuntimeError: CUDA_ERROR_INVALID_VALUE" in ran.shown
    assert driver.said == ["lock", "checkpoint", "unlock"]
    driver.fails("restore")
    job = released(kernel, env, "fails", resumed(kernel, "fails"))
    os.kill(job["pid"], signal.SIGKILL)
    until_gone(job["pid"])
    job = released(kernel, env, "fails", resumed(kernel, "fails"))
    sent = resumed(kernel, "fails", "goes on from the disk instead: restore: RuntimeError")
    hold.touch()
    assert kernel.finish(sent).stdout.endswith("step 30\n")
    assert jobs(env)["fails"]["epoch"] == job["epoch"] + 2  # it was woken, and then replaced its image
    assert kernel.check(DIGEST).stdout == plain
    kernel.check("assert also is net")


def test_a_silent_worker_is_ended_and_one_whose_job_went_on_elsewhere_says_nothing_more(
    kernel: Kernel, env: dict[str, str], home: Path, plain: str, hold: Path, driver: StandIn
) -> None:
    first = released(kernel, env, "frozen", started(kernel, "frozen", hold))
    os.kill(first["pid"], signal.SIGSTOP)
    state = home / f".local/share/gpufit/jobs/{first['id']}/state.json"
    record = json.loads(state.read_text()) | {"worker": None}  # as if nobody knew of it
    state.write_text(json.dumps(record))
    second = released(kernel, env, "frozen", resumed(kernel, "frozen"))
    assert (second["epoch"], second["pid"] != first["pid"]) == (first["epoch"] + 1, True)
    os.kill(second["pid"], signal.SIGSTOP)
    hold.touch()
    ran = kernel.check("%gpufit resume frozen")
    assert "goes on from the disk: its suspended process did not answer" in ran.shown
    assert ran.stdout.startswith("step 15\n") and ran.stdout.endswith("step 30\n")
    until_gone(second["pid"])
    os.kill(first["pid"], signal.SIGCONT)
    until_gone(first["pid"])
    found = jobs(env)["frozen"]
    assert (found["state"], found["epoch"]) == ("done", second["epoch"] + 1)
    assert kernel.check(DIGEST).stdout == plain
    assert "unlock" not in driver.said
