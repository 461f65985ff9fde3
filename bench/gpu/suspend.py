"""A release and a resume by the driver's suspend, beside the same by the disk; and what NVML shows in between.

Written from the documentation of driver and cuda.core: no GPU has run it yet. The setting stays off until it has.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import show_table, write_results  # noqa: E402 - needs the path above

from jupyter_gpufit.devices.nvml import read_gpus  # noqa: E402
from jupyter_gpufit.examine.user.facts import suspend  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402
from tests.kernels import Kernel, environment, running_kernel  # noqa: E402

GiB = 1 << 30
SIZES = (1, 8, 32)  # GiB that the training has on its GPU
ROUNDS = 3
CELL = """%%gpufit train --name it --gpu 0
import os, time, torch
state = [torch.randn(1 << 28, device="cuda") for _ in range({size})]
for step in range(10**9):
    state[0].add_(1.0)
    torch.cuda.synchronize()
    print("tick", step)
    time.sleep(0.05)
    if os.path.exists({end!r}):
        break
"""


def used() -> int:
    return sum(gpu.used for gpu in read_gpus())


def round_trip(kernel: Kernel, sent: str, env: dict[str, str]) -> tuple[str, dict[str, float]]:
    """Release and resume: the cell that goes on, and seconds and bytes."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", "release", "it"]
    subprocess.run(command, env=env, check=True, capture_output=True)
    released = time.perf_counter()
    left = kernel.finish(sent).shown
    stays = float(used())
    start_again = time.perf_counter()
    sent = kernel.send("%gpufit resume it")
    shown = kernel.until(sent, "tick ").shown
    went = {"release": released - start, "resume": time.perf_counter() - start_again, "left on the GPUs": stays}
    ways = {"suspended": float("stays in the host" in left), "brought back": float("brought it back" in shown)}
    return sent, went | ways


def measure(size: int, by_suspend: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        env = environment(home, GPUFIT_DEVICES="gpu", GPUFIT_ESTIMATE_LIMIT="0", GPUFIT_DRIVER_SUSPEND=str(by_suspend))
        before, rounds = used(), []
        with running_kernel(env, home) as kernel:
            sent = kernel.send(CELL.format(size=size, end=str(home / "end")))
            kernel.until(sent, "tick 3\n")
            for _ in range(ROUNDS):
                sent, went = round_trip(kernel, sent, env)
                rounds.append(went)
            (home / "end").touch()
            kernel.finish(sent)
    return {"GiB": size, "by": "suspend" if by_suspend else "disk", "before": before, "rounds": rounds}


def row(one: dict[str, Any]) -> tuple[object, ...]:
    def median(key: str) -> float:
        return sorted(went[key] for went in one["rounds"])[ROUNDS // 2]

    ways = sum(went["brought back"] for went in one["rounds"])
    left = max(went["left on the GPUs"] for went in one["rounds"]) - one["before"]
    return (
        f"{one['GiB']} GiB",
        one["by"],
        f"{median('release'):.2f} s",
        f"{median('resume'):.2f} s",
        f"{left / (1 << 20):.0f} MiB",
        f"{ways:.0f} of {ROUNDS}",
    )


def main() -> None:
    if why := suspend(Settings(driver_suspend=True), 60).trouble:
        print(f"NEEDS A DRIVER THAT SUSPENDS: nothing was measured ({why}).")
        return
    fits = [size for size in SIZES if (size + 4) * GiB < read_gpus()[0].free]
    results = [measure(size, by_suspend) for size in fits for by_suspend in (True, False)]
    show_table(("state", "by", "release", "resume", "left on the GPUs", "by the driver"), [row(one) for one in results])
    write_results("gpu_suspend", results)


if __name__ == "__main__":
    main()
