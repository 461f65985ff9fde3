"""A training that loses its worker on two devices, then one, then four, and ends on two: nothing is lost or doubled."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs
from tests.kernels import Kernel, environment, running_kernel
from tests.worker.ranks.test_ranks import CELL, SET_UP, losses, near, nothing_is_held, scratch, until

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]
KILLED = {9: "1", 14: "4", 19: "2"}  # after these steps, to go on with on so many devices


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_DEVICES="cpu:4x2GiB", TMPDIR=str(home))


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


def test_killed_on_two_on_one_and_on_four(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    kernel.check(SET_UP + CELL.format(steps=30, holds=(), hold=""))
    plain, hold = losses(kernel), home / "go-on"
    kernel.check(SET_UP + "net.to('cuda'); x, y = x.to('cuda'), y.to('cuda')")  # else there is nothing to estimate
    sent = kernel.send(f"%%gpufit train --gpus 2 --name elastic\n{CELL.format(steps=30, holds=(*KILLED,), hold=hold)}")
    estimated = ""
    for step, gpus in KILLED.items():
        ran = kernel.until(sent, f"step {step}\n")
        estimated = estimated or ran.shown
        assert gpufit(env, "checkpoint", "elastic").returncode == 0
        os.kill(jobs(env)["elastic"]["pid"], signal.SIGKILL)
        kernel.finish(sent)
        until(lambda: not scratch(home))
        Path(f"{hold}-{step}").touch()
        sent = kernel.send(f"%gpufit resume --gpus {gpus} elastic")
    ran = kernel.finish(sent)
    assert ran.ok, ran.traceback
    near(losses(kernel), plain)
    assert "on each of 2 devices, data parallel; estimate: " in estimated
    nothing_is_held(env)
