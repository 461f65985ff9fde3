"""The seam between a GPU and a slot, on a GPU: the granted device and no more than the granted bytes."""

from __future__ import annotations

import subprocess
import sys

RUN = """
from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.testing import fake_grant
from jupyter_gpufit.worker.on_device import on_device
from dataclasses import replace
import torch

assert not torch.cuda.is_initialized()
device = read_devices(Settings())[0]
granted = replace(fake_grant(device), bytes=2 << 30)
with on_device(granted) as meter:
    assert torch.cuda.device_count() == 1
    small = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
    assert meter.used() >= 1 << 30
    try:
        torch.empty(3 << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("out of its own memory")
    print("peak", meter.peak() >> 30)
"""


def test_a_job_sees_one_device_and_runs_out_of_its_own_memory_only() -> None:
    ran = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "out of its own memory\npeak 1\n", ran.stderr
