from __future__ import annotations

import anyio
import pytest

from jupyter_gpufit.errors import NeverFits
from jupyter_gpufit.job import Job
from jupyter_gpufit.testing import FakeMachine
from jupyter_gpufit.train import Finished, train
from jupyter_gpufit.units import GiB
from jupyter_gpufit.worker.messages import StateChange

JOB = Job(id="abc234", name="bert", source="pass", created=0.0, cwd="/")


def _train(machine: FakeMachine) -> tuple[Finished, list[str]]:
    states: list[str] = []

    def report(change: StateChange) -> None:
        states.append(change.state)

    return anyio.run(train, JOB, machine, report), states


def test_a_job_goes_from_its_cell_to_the_release() -> None:
    machine = FakeMachine()

    finished, states = _train(machine)

    assert finished == Finished("done")
    assert machine.log == ["opened the cell", "estimated", "claimed device 0", "ran", "released device 0"]
    assert states == ["estimating", "queued", "running"]


def test_a_failed_cell_releases_its_device() -> None:
    machine = FakeMachine(outcome=Finished("failed", "ValueError"))
    assert _train(machine)[0].state == "failed"
    assert machine.log[-1] == "released device 0"


def test_a_job_that_fits_nowhere_never_runs() -> None:
    machine = FakeMachine(refuses=NeverFits(90 * GiB, "GPU 1", 80 * GiB))
    with pytest.raises(NeverFits):
        _train(machine)
    assert machine.log == ["opened the cell", "estimated"]
