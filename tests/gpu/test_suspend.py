"""A training that the driver suspends: nothing of it stays on the GPU, and the same process ends with the same result.

Written from the documentation of driver and cuda.core: no GPU has run it yet.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.devices.nvml import read_gpus
from jupyter_gpufit.examine.user.facts import suspend
from jupyter_gpufit.settings import Settings
from tests.command_line import gpufit, jobs
from tests.gpu.test_checkpoint import CELL, DIGEST, ON_GPUS, SET_UP, said
from tests.kernels import environment, running_kernel

LONGEST = 60.0  # seconds for CUDA to start


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    if why := suspend(Settings(driver_suspend=True), LONGEST).trouble:
        pytest.skip(f"NEEDS A DRIVER THAT SUSPENDS: {why}")
    return environment(tmp_path, GPUFIT_DEVICES="gpu", GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_DRIVER_SUSPEND="1")


@pytest.mark.parametrize("elsewhere", [False, True])
def test_released_it_is_off_the_device_and_resumed_nothing_has_changed(
    env: dict[str, str], tmp_path: Path, elsewhere: bool
) -> None:
    if elsewhere and len(read_gpus()) < 2:
        pytest.skip("NEEDS TWO GPUS")
    hold = tmp_path / "go on"
    with running_kernel(env, tmp_path, cold=True) as kernel:
        before = said("-c", ON_GPUS, env=env)
        kernel.check(SET_UP)
        kernel.check("%%gpufit train --name plain --gpu 0\n" + CELL.format(hold="/"))
        plain = kernel.check(DIGEST).stdout
        kernel.check(SET_UP)
        sent = kernel.send("%%gpufit train --name left --gpu 0\n" + CELL.format(hold=str(hold)))
        kernel.until(sent, "step 9\n")
        assert "released at step 10" in gpufit(env, "release", "left").stdout
        ran = kernel.finish(sent)
        assert ran.released and "stays in the host's memory" in ran.shown, ran.shown
        assert said("-c", ON_GPUS, env=env) == before
        suspended = jobs(env)["left"]
        assert suspended["pid"] is not None
        hold.touch()
        ran = kernel.check(f"%gpufit resume left --gpu {int(elsewhere)}")
        assert ran.stdout.startswith("step 10\n") and "not to the bit" not in ran.shown
        # Between GPUs the documentation leaves open whether a process that sees one of them alone can be moved.
        assert elsewhere or "the driver brought it back" in ran.shown, ran.shown
        assert kernel.check(DIGEST).stdout == plain
        sys.stdout.write(f"{os.linesep}{ran.shown}")  # which way it was, for whoever runs this with -s
