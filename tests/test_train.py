from __future__ import annotations

import anyio
import pytest

from jupyter_gpufit.errors import NeverFits
from jupyter_gpufit.estimate.need import Needed
from jupyter_gpufit.jobs.events import StateChange
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.testing import FakeMachine, fake_device, fake_grant
from jupyter_gpufit.train import Finished, Moved, Outgrown, Released, train
from jupyter_gpufit.units import GiB

JOB = Job(id="abc234", name="bert", source="pass", created=0.0, cwd="/")


def _train(machine: FakeMachine) -> tuple[Finished | Released, list[str]]:
    states: list[str] = []

    def report(change: StateChange) -> None:
        states.append(change.state)

    return anyio.run(train, JOB, machine, report), states


def test_a_job_goes_from_its_cell_to_the_release() -> None:
    machine = FakeMachine()

    finished, states = _train(machine)

    assert finished == Finished("done")
    assert machine.log == ["estimated", "claimed device 0", "ran", "released device 0"]
    assert states == ["estimating", "queued", "running"]


def test_a_failed_cell_releases_its_device() -> None:
    machine = FakeMachine(outcomes=[Finished("failed", "ValueError")])
    assert _train(machine)[0] == Finished("failed", "ValueError")
    assert machine.log[-1] == "released device 0"


def test_a_job_that_fits_nowhere_never_runs() -> None:
    machine = FakeMachine(refuses=NeverFits(90 * GiB, "GPU 1", 80 * GiB))
    with pytest.raises(NeverFits):
        _train(machine)
    assert machine.log == ["estimated"]


def test_a_moved_job_goes_on_where_it_holds_a_device_already() -> None:
    there = fake_grant(fake_device("GPU-there", label="1"))
    machine = FakeMachine(outcomes=[Moved(there), Finished("done")])

    finished, states = _train(machine)

    assert finished == Finished("done")
    assert machine.log[1:] == [
        "claimed device 0",
        "ran",
        "released device 0",
        "went on to device 1",
        "claimed device 1",
        "ran",
        "released device 1",
    ]
    assert states == ["estimating", "queued", "running", "running"]


def test_a_released_job_gives_its_device_back_and_is_not_finished() -> None:
    machine = FakeMachine(outcomes=[Released("released at step 3")])
    assert _train(machine)[0] == Released("released at step 3")
    assert machine.log[-2:] == ["ran", "released device 0"]


def test_a_job_that_needs_more_than_was_guessed_queues_again_for_more() -> None:
    more = Outgrown(Needed(2 * GiB, "needs 2.0 GiB"), "goes on with more")
    machine = FakeMachine(outcomes=[more, Finished("done")])

    finished, states = _train(machine)

    assert finished == Finished("done")
    assert machine.log[1:] == [
        "claimed device 0",
        "ran",
        "released device 0",
        "goes on with more",
        "claimed device 0",
        "ran",
        "released device 0",
    ]
    assert states == ["estimating", "queued", "running", "queued", "running"]
