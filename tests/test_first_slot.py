"""The first cell on a machine without a GPU, whose user has chosen nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.devices.slots import has_nvidia_gpu
from tests.kernels import environment, running_kernel

pytestmark = pytest.mark.slow


def test_who_chose_no_devices_is_told_once_that_it_trains_on_a_slot(tmp_path: Path) -> None:
    if has_nvidia_gpu():
        pytest.skip("this machine has a GPU")
    with running_kernel(environment(tmp_path, GPUFIT_DEVICES=""), tmp_path) as kernel:
        cell = "%%gpufit train --memory 1GiB\nimport torch\nprint(torch.ones(1).cuda().device)"
        ran = [kernel.run(cell), kernel.run(cell)]
    assert [one.stdout for one in ran] == ["cuda:0\n"] * 2
    assert ["trains on a CPU slot of" in one.shown for one in ran] == [True, False]
