"""A model's weights on a GPU: how fast they come, how fast they go, and what runs between take, usually and at worst.

Where weights are inputs of a session, to load a model is to copy bytes over PCIe. Beside it: to make the session anew.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import package_root, show_table, write_results

package_root()

import numpy as np  # noqa: E402

from jupyter_gpufit.deploy.providers import provider_for  # noqa: E402
from jupyter_gpufit.deploy.session import Model  # noqa: E402
from jupyter_gpufit.deploy.shells import ShellModel  # noqa: E402
from jupyter_gpufit.devices.here import read_devices  # noqa: E402
from jupyter_gpufit.models.shell import WHOLE, take_weights_out  # noqa: E402
from jupyter_gpufit.models.taking import take  # noqa: E402
from jupyter_gpufit.settings import Settings  # noqa: E402
from jupyter_gpufit.units import GiB, MiB  # noqa: E402
from tests.models.zoo import affine  # noqa: E402

SIDES = (1024, 4096, 8192)  # 4, 64 and 256 MiB of weights
CYCLES = 50
RUNS = 1000


def timed(do: Any) -> float:
    began = time.perf_counter()
    do()
    return time.perf_counter() - began


def measured(folder: Path, side: int) -> dict[str, Any]:
    gpu = next(device for device in read_devices(Settings()) if device.kind == "gpu")
    provider = provider_for(gpu, 4 * GiB, 512 * MiB, 1)
    path, shells = folder / f"{side}.onnx", folder / str(side)
    shells.mkdir()
    affine(path, features=side, answers=side)
    signature = take(path, 1, {}).signature
    take_weights_out(path, shells)
    anew = timed(lambda: Model(str(shells / WHOLE), signature, provider))
    model, x = ShellModel(shells, signature, provider), np.ones((1, side), np.float32)
    loads, evicts = [], []
    for _ in range(CYCLES):
        loads.append(timed(model.load))
        model.run([x])
        evicts.append(timed(model.evict))
    before = read_devices(Settings())[0].free
    for _ in range(CYCLES):
        model.load()
        model.run([x])
        model.evict()
    grown = before - read_devices(Settings())[0].free
    model.load()
    runs = [timed(lambda: model.run([x])) for _ in range(RUNS)]
    load = float(np.median(loads))
    return {
        "weights_MiB": model.weights >> 20,
        "load_ms": round(load * 1e3, 2),
        "load_GB_per_second": round(model.weights / load / 1e9, 2),
        "evict_ms": round(float(np.median(evicts)) * 1e3, 3),
        "session_anew_ms": round(anew * 1e3, 1),
        "run_p50_ms": round(float(np.percentile(runs, 50)) * 1e3, 3),
        "run_p99_ms": round(float(np.percentile(runs, 99)) * 1e3, 3),
        "grown_MiB": grown >> 20,
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        results = {f"{side} x {side}": measured(Path(name), side) for side in SIDES}
    show_table(["weights", "figures"], list(results.items()))
    write_results("gpu_deploy", results)


if __name__ == "__main__":
    main()
