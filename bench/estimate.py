"""How long an estimate takes, what it costs the host, and what others say of the same training, in one run.

Rows: GPT-2 small at 8x512, a ResNet-50, Llama-2 13B with LoRA. Beside each: torch's MemTracker on fake CPU tensors,
which knows neither allocator nor CUDA's kernels; the closed form (parameters, gradients, optimizer state); and
torch-kitsune where it is installed (pip install torch-kitsune), which runs the model's forward for real on the CPU and
reckons the rest: it gets the bare model, since it knows no training loop. None of the others counts a context.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from typing import Any

from common import package_root, show_table, write_results

package_root()

import torch  # noqa: E402, F401 - needs the path above; before the clock starts

from jupyter_gpufit.devices.cards import find_card  # noqa: E402
from jupyter_gpufit.estimate.reckoning.allocator import replay, smallest_capacity  # noqa: E402
from jupyter_gpufit.estimate.reckoning.report import closed_form  # noqa: E402
from jupyter_gpufit.estimate.tracing.trace import trace_cell  # noqa: E402
from jupyter_gpufit.units import MiB  # noqa: E402

REPEAT = 3
CARD = find_card("NVIDIA A100-SXM4-40GB").card

GPT = """
from tests.estimate.gpt import Gpt
model = Gpt().to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
for step in range(100):
    ids = torch.randint(0, 50257, (8, 512)).to("cuda")
    loss = model(ids, ids)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
RESNET = """
from tests.estimate.resnet import ResNet50
model = ResNet50().to("cuda")
optimizer = torch.optim.Adam(model.parameters())
for step in range(100):
    x, y = torch.randn(32, 3, 224, 224).to("cuda"), torch.randint(0, 1000, (32,)).to("cuda")
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def llama() -> str:
    from tests.estimate.published import LARGE, LLAMA

    return LLAMA.format(batch=1, **LARGE)


def cells() -> dict[str, str]:
    head = "import torch\n"
    return {"GPT-2 small 8x512": head + GPT, "ResNet-50 32x224": head + RESNET, "Llama-2 13B LoRA": llama()}


def ours(cell: str) -> dict[str, Any]:
    """The best of some, as with all times here; what the child grew by."""
    taken = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        trace = trace_cell(cell, dict, CARD, limit=300)
        traced = time.perf_counter()
        assert trace.status in ("stopped", "completed"), trace.error
        sizes = [block.size for block in trace.blocks]
        run = replay(sizes, trace.changes)
        capacity = smallest_capacity(sizes, trace.changes, free_run=run)
        taken.append((time.perf_counter() - start, time.perf_counter() - traced))
    return {
        "seconds": min(whole for whole, _ in taken),
        "of it replaying": min(replaying for _, replaying in taken),
        "child grew MiB": trace.resident / MiB,
        "changes": len(trace.changes),
        "allocated MiB": run.allocated / MiB,
        "reserved MiB": run.reserved / MiB,
        "capacity MiB": capacity / MiB,
        "closed form MiB": closed_form(trace) / MiB,
    }


MEM_TRACKER = """
import sys, time
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
cell = sys.stdin.read().replace("range(100)", "range(2)")
if "bfloat16" in cell:
    torch.set_default_dtype(torch.bfloat16)  # fake modules cannot be cast
cell = cell.replace('.to("cuda", torch.bfloat16)', "").replace('.to("cuda")', "")
cell = cell.replace("for step", "tracker.track_external(model, optimizer)\\nfor step")
cell = cell.replace("    loss.backward()", "    loss.backward(); tracker.reset_mod_stats()")
tracker, start = MemTracker(), time.perf_counter()
with FakeTensorMode(allow_non_fake_inputs=True), tracker:
    exec(cell)
peak = tracker.get_tracker_snapshot("peak")
print(time.perf_counter() - start, max(max(kinds.values()) for kinds in peak.values()))
"""


def mem_tracker(cell: str) -> dict[str, Any]:
    """In a process of its own: on fake CPU tensors, since fake CUDA tensors end the process on a CPU build of torch."""
    return told([sys.executable, "-W", "ignore", "-c", MEM_TRACKER], cell)


KITSUNE = """
import sys, time
import torch
from kitsune.predict import predict_memory
from tests.estimate.gpt import Gpt
from tests.estimate.resnet import ResNet50

class OfFloats(torch.nn.Module):  # which is what it makes as input
    def __init__(self):
        super().__init__()
        self.gpt = Gpt()
    def forward(self, x):
        ids = x.long().clamp(0, 50256)
        return self.gpt(ids, ids)

start = time.perf_counter()
found = {call}
print(time.perf_counter() - start, found.total_gb * 2**30)
"""
KITSUNE_CALLS = {
    "GPT-2 small 8x512": 'predict_memory(OfFloats(), input_shape=(512,), batch_size=8, optimizer="adamw")',
    "ResNet-50 32x224": 'predict_memory(ResNet50(), input_shape=(3, 224, 224), batch_size=32, optimizer="adam")',
}


def kitsune(name: str) -> dict[str, Any]:
    """In a process of its own; the 13B model's forward would need 26 GB of weights and the CPU's hour."""
    if name not in KITSUNE_CALLS:
        return {"problem": "not run: it computes the forward for real"}
    if importlib.util.find_spec("kitsune") is None:
        return {"problem": "not installed"}
    return told([sys.executable, "-W", "ignore", "-c", KITSUNE.replace("{call}", KITSUNE_CALLS[name])], "")


def told(command: list[str], given: str) -> dict[str, Any]:
    """Seconds and bytes, the last words of a program."""
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=600, cwd=package_root(), check=False
    )
    if done.returncode != 0:
        return {"problem": (done.stderr.strip().splitlines() or ["ended without a word"])[-1][:200]}
    seconds, peak = done.stdout.split()[-2:]
    return {"seconds": float(seconds), "peak MiB": int(float(peak)) / MiB}


def in_words(found: dict[str, Any]) -> str:
    return f"{found['peak MiB']:.0f} in {found['seconds']:.1f} s" if "seconds" in found else str(found["problem"])


def main() -> None:
    results: dict[str, Any] = {}
    for name, cell in cells().items():
        results[name] = {"ours": ours(cell), "MemTracker": mem_tracker(cell), "torch-kitsune": kitsune(name)}
    rows = []
    for name, found in results.items():
        mine = found["ours"]
        rows.append(
            (
                name,
                f"{mine['seconds']:.1f}",
                f"{mine['child grew MiB']:.0f}",
                f"{mine['allocated MiB']:.0f} / {mine['reserved MiB']:.0f}",
                f"{mine['closed form MiB']:.0f}",
                in_words(found["MemTracker"]),
                in_words(found["torch-kitsune"]),
            )
        )
    heads = ("training", "s", "child MiB", "allocated / reserved MiB", "closed form", "MemTracker MiB", "kitsune MiB")
    show_table(heads, rows)
    write_results("estimate", results)


if __name__ == "__main__":
    main()
