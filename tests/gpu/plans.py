"""Small trainings under the rungs of the fit ladder: what is foreseen of each, and what it takes and comes to on a GPU.

Written where no GPU was: none has run it yet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from jupyter_gpufit.devices.card import Card
from jupyter_gpufit.fit.plan import Plan

MODELS = ("Dense", "Words", "Pictures")  # of bench/fit_models.py
CELL = """
import torch
from torch.nn import functional as F
from bench.fit_models import {model} as Model
torch.manual_seed(0)
with torch.device("cuda"):
    model = Model()
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range({steps}):
    x, y = model.batch("cuda")
    if {vary}:
        rows = torch.randint(1, len(x) + 1, ()).item() if step else len(x)
        x, y = x[:rows], y[:rows]
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
RUN = "import sys; from tests.gpu.plans import run; run(sys.stdin.read())"


def cell_of(model: str, *, steps: int = 3, vary: bool = False) -> str:
    return CELL.format(model=model, steps=steps, vary=vary)


def foreseen(model: str, card: Card) -> Iterator[tuple[Plan, int, float]]:
    """Plans, the bytes that each is foreseen to have allocated at the peak, and times a step takes as it is.

    As it is, and of each rung all that it can do; of a steep one the first that it can. In a process without CUDA.
    """
    from jupyter_gpufit.estimate.reckoning.allocator import replay
    from jupyter_gpufit.estimate.reckoning.parts import facts_of
    from jupyter_gpufit.estimate.tracing.trace import trace_cell
    from jupyter_gpufit.fit.ladder import RUNGS

    cell = cell_of(model, steps=2)
    plain = trace_cell(cell, dict, card)
    of_rungs = [(rung, rung.notches(facts_of(plain))) for rung in RUNGS]
    plans = [Plan().under(rung, notches[0 if rung.STEEP else -1]) for rung, notches in of_rungs if notches]
    for plan in [Plan(), *plans]:
        trace = trace_cell(cell, dict, card, plan=plan) if plan.parts else plain
        assert trace.status == "completed", trace.error
        peak = replay([block.size for block in trace.blocks], trace.changes).allocated
        yield plan, peak, trace.seconds_per_step / plain.seconds_per_step


def measured(model: str, plan: Plan, *, cap: int = 0, steps: int = 3, vary: bool = False) -> dict[str, Any]:
    """The same for real, in a process of its own that may have so many bytes (0: all)."""
    from jupyter_gpufit.fit.ladder import environment

    asked = {"cell": cell_of(model, steps=steps, vary=vary), "plan": plan.to_record(), "cap": cap}
    env = {**environment(plan, os.environ), "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    ran = subprocess.run(
        [sys.executable, "-c", RUN], input=json.dumps(asked), env=env, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, f"{plan.words}: {ran.stderr[-2000:]}"
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def run(asked: str) -> None:
    """Print what it took, and what it came to."""
    import hashlib
    import time

    import torch

    from jupyter_gpufit.fit.ladder import fitted, moved

    wanted = json.loads(asked)
    torch.use_deterministic_algorithms(True, warn_only=True)
    if cap := wanted["cap"]:
        torch.cuda.set_per_process_memory_fraction(cap / torch.cuda.mem_get_info()[1])
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with fitted(Plan.from_record(wanted["plan"])):
        began = time.perf_counter()
        exec(compile(wanted["cell"], "<cell>", "exec"), namespace)
        torch.cuda.synchronize()
        seconds, host = time.perf_counter() - began, moved()
        digest = hashlib.sha256(json.dumps([loss.hex() for loss in namespace["losses"]]).encode())
        for value in namespace["model"].state_dict().values():
            digest.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    took = {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
    more = {"seconds": seconds, "host": host.taken, "moved": host.moved, "bits": digest.hexdigest()}
    os.write(1, json.dumps(took | more).encode() + b"\n")
