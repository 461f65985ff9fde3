"""A loss that is only on the GPU reaches the curve, and nobody waits for it."""

from __future__ import annotations

import subprocess
import sys

RUN = """
import threading, time, torch
from jupyter_gpufit.worker.copies import Copies
from jupyter_gpufit.worker.metrics import Sampler

sampler = Sampler(threading.get_ident())
copies = Copies(sampler.elsewhere)
found = {}

def train():
    weight = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    for step in range(50):
        loss = (weight @ weight).float().mean()
        val_acc = torch.tensor(0.5, device="cuda", dtype=torch.bfloat16)
    assert sampler.look().elsewhere
    torch.cuda.synchronize()
    for _ in range(20):
        loss = (weight @ weight).float().mean()
    start = time.perf_counter()
    copies.take()
    taken = time.perf_counter() - start
    still = copies.under_way and not copies.arrived()
    torch.cuda.synchronize()
    found.update(copies.arrived())
    print("soon" if taken < 0.05 else f"after {taken:.3f} s", "on its way" if still else "there", found)

train()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    copies.take()
print("captured", copies.under_way)
"""


def test_a_number_on_the_gpu_is_fetched_without_waiting() -> None:
    ran = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "soon on its way {'loss': 4096.0, 'val_acc': 0.5}\ncaptured False\n", ran.stderr
