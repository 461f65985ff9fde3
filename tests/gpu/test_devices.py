"""What NVML says through us is what torch says."""

from __future__ import annotations

import subprocess
import sys

from jupyter_gpufit.devices.here import read_devices
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import MiB

HOLD = """
import torch
held = torch.empty(512 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("holding", flush=True)
input()
"""


def test_names_totals_and_capabilities_agree_with_torch() -> None:
    import torch

    devices = [device for device in read_devices(Settings()) if device.kind == "gpu"]
    seen = {torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())}
    assert seen <= {device.name for device in devices}
    for device in devices:
        assert not device.problem and 0 <= device.free <= device.total
        assert device.capability is not None and device.capability >= (5, 0)


def test_memory_that_a_process_takes_is_seen_with_its_user_and_comes_back() -> None:
    import getpass

    before = read_devices(Settings())[0]
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "holding\n"
        during = read_devices(Settings())[0]
        process.communicate("\n")
    assert before.free - during.free >= 512 * MiB
    shown = {found.pid: found for found in during.processes}
    # In a container NVML numbers processes as the host does: then the pid is not ours to recognise.
    if process.pid in shown:
        assert shown[process.pid].user == getpass.getuser()
