"""What a reading of the GPUs costs, beside nvidia-smi; and when a killed holder's lock and memory come back.

The second part decides how long a claim must wait for bytes after it was won: a child takes its flock before CUDA is
initialised, takes memory, and is killed; then the lock, NVML's process list and the free bytes are watched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import package_root, seconds, show_table, write_results

package_root()

from jupyter_gpufit.devices.here import read_devices  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402

HOLDER = """
import fcntl, os, sys, torch
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
held = torch.empty(int(sys.argv[2]), dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("holding", flush=True)
input()
"""


def readings() -> dict[str, Any]:
    """One reading of every device, warm, and the command line people use instead."""
    read_devices(Settings())
    found = {"jupyter_gpufit": seconds(lambda: read_devices(Settings()), 50)}
    if shutil.which("nvidia-smi"):
        query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv"]
        found["nvidia-smi --query-gpu"] = seconds(lambda: subprocess.run(query, capture_output=True, check=True), 10)
    return found


def after_a_kill(size: int) -> dict[str, float]:
    """Seconds from SIGKILL until the lock is free, and until the bytes are."""
    with tempfile.NamedTemporaryFile() as lock:
        free = read_devices(Settings())[0].free
        command = [sys.executable, "-c", HOLDER, lock.name, str(size)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            assert holder.stdout is not None and holder.stdout.readline() == "holding\n"
            fd = os.open(lock.name, os.O_RDWR)
            holder.send_signal(signal.SIGKILL)
            start = time.perf_counter()
            fcntl.flock(fd, fcntl.LOCK_EX)
            unlocked = time.perf_counter() - start
            at_unlock = read_devices(Settings())[0]
            while read_devices(Settings())[0].free < free - (64 << 20):
                pass
            freed = time.perf_counter() - start
            os.close(fd)
    return {"lock": unlocked, "memory": freed, "missing at unlock": float(free - at_unlock.free)}


def main() -> None:
    results: dict[str, Any] = {"reading": readings()}
    rows = [("reading", name, f"{times['median'] * 1000:.2f} ms") for name, times in results["reading"].items()]
    for gib in (2, 60):
        if read_devices(Settings())[0].free > (gib + 2) << 30:
            found = results[f"{gib} GiB holder killed"] = after_a_kill(gib << 30)
            rows += [
                (f"{gib} GiB holder killed", f"{what} free", f"{found[what] * 1000:.1f} ms")
                for what in ("lock", "memory")
            ]
    show_table(("what", "which", "median"), rows)
    write_results("gpu_nvml", results)


if __name__ == "__main__":
    main()
