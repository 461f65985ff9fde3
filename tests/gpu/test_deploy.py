"""Models on a GPU under ONNX Runtime: on CUDA and not beside it, equal to the CPU, weights that come and go."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from jupyter_gpufit.deploy.providers import CPU, Provider, provider_for
from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.models.shell import take_weights_out
from jupyter_gpufit.models.taking import take
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB, MiB

pytest.importorskip("onnxruntime", reason="onnxruntime-gpu is NOT installed: models on a GPU are NOT TESTED")
SIDE = 4096  # 64 MiB of weights
CYCLES = 100


def on_gpu(memory: int) -> Provider:
    gpu = next(device for device in read_devices(Settings()) if device.kind == "gpu")
    return provider_for(gpu, memory, 512 * MiB, 1)


def test_a_model_runs_on_cuda_and_answers_as_on_the_cpu(tmp_path: Path) -> None:
    from jupyter_gpufit.deploy.session import Model
    from tests.models.zoo import affine

    affine(tmp_path / "net.onnx", features=SIDE, answers=8)
    signature = take(tmp_path / "net.onnx", 16, {}).signature
    x = np.random.default_rng(0).standard_normal((16, SIDE), np.float32)
    [there] = Model(str(tmp_path / "net.onnx"), signature, on_gpu(2 * GiB)).run([x])
    [here] = Model(str(tmp_path / "net.onnx"), signature, Provider(names=(CPU,), threads=1)).run([x])
    np.testing.assert_allclose(there, here, rtol=1e-2, atol=1e-2 * float(np.abs(here).max()))  # TF32


def test_weights_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    from jupyter_gpufit.deploy.shells import ShellModel
    from tests.models.zoo import affine

    w, b = affine(tmp_path / "net.onnx", features=SIDE, answers=SIDE)
    signature = take(tmp_path / "net.onnx", 1, {}).signature
    (tmp_path / "shell").mkdir()
    take_weights_out(tmp_path / "net.onnx", tmp_path / "shell")
    shell, x = ShellModel(tmp_path / "shell", signature, on_gpu(2 * GiB)), np.ones((1, SIDE), np.float32)
    taken = []
    for cycle in range(CYCLES):
        shell.load()
        [answer] = shell.run([x])
        shell.evict()
        if cycle in (9, CYCLES - 1):
            taken.append(_taken())
    np.testing.assert_allclose(answer, x @ w + b, rtol=1e-2, atol=1.0)
    assert taken[1] - taken[0] < 32 * MiB  # half of the weights


def _taken() -> int:
    """Of the first GPU, by this process where the driver tells, else by all."""
    device = read_devices(Settings())[0]
    ours = [one.bytes for one in device.processes if one.pid == os.getpid() and one.bytes]
    return ours[0] if ours else device.total - device.free
