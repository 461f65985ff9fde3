"""Each rung of the fit ladder on a GPU: memory and time as foreseen and as measured, beside FSDP2 with CPU offload.

Written where no GPU was: none has run it yet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench")]

from common import show_table, write_results  # noqa: E402 - needs the path above

from tests.gpu.plans import MODELS, foreseen, measured  # noqa: E402

MiB = 1 << 20
STEPS = 20
FSDP2 = """
import json, tempfile, time, torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard
from torch.nn import functional as F
from bench.fit_models import {model} as Model
folder = tempfile.mkdtemp()
dist.init_process_group("cpu:gloo,cuda:nccl", store=dist.FileStore(folder + "/store", 1), rank=0, world_size=1)
torch.manual_seed(0)
model = Model()
for module in (*model.children(), model):
    fully_shard(module, offload_policy=CPUOffloadPolicy())
optimizer = torch.optim.AdamW(model.parameters())
began = time.perf_counter()
for step in range({steps}):
    x, y = model.batch("cuda")
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
torch.cuda.synchronize()
print(json.dumps({{"allocated": torch.cuda.max_memory_allocated(), "seconds": time.perf_counter() - began}}))
dist.destroy_process_group()
"""


def fsdp2(model: str) -> dict[str, Any] | None:
    """None: it could not run; why stands on the standard error."""
    code = FSDP2.format(model=model, steps=STEPS)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    if ran.returncode:
        print(f"FSDP2, {model}: {ran.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def main() -> None:
    import torch

    if not torch.cuda.device_count():
        print("NEEDS A GPU: nothing was measured.")
        return
    from jupyter_gpufit.devices.here import read_devices
    from jupyter_gpufit.estimate.asking.target import largest_of, target_of
    from jupyter_gpufit.settings import Settings

    card = target_of(Settings(), largest_of(read_devices(Settings()))).card
    results: list[dict[str, Any]] = []
    for model in MODELS:
        plain = 0.0
        for plan, peak, slower in foreseen(model, card):
            ran = measured(model, plan, steps=STEPS)
            plain = plain or ran["seconds"]
            row = {"model": model, "plan": plan.words, "foreseen": peak, "slower_foreseen": slower}
            results.append(row | ran | {"slower": ran["seconds"] / plain})
        if (peer := fsdp2(model)) is not None:
            results.append({"model": model, "plan": "FSDP2, on the CPU"} | peer | {"slower": peer["seconds"] / plain})
    show_table(
        ("model", "plan", "foreseen", "allocated", "time, foreseen", "time"),
        [
            (
                one["model"],
                one["plan"],
                f"{one['foreseen'] / MiB:.1f} MiB" if "foreseen" in one else "",
                f"{one['allocated'] / MiB:.1f} MiB",
                f"{one['slower_foreseen']:.2f}x" if "foreseen" in one else "",
                f"{one['slower']:.2f}x",
            )
            for one in results
        ],
    )
    write_results("gpu_fit", results)


if __name__ == "__main__":
    main()
