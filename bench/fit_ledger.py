"""What a plan really takes, counted in a process of its own: a ledger of every tensor's birth and death on this CPU."""

from __future__ import annotations

import hashlib
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from common import package_root

package_root()

import torch  # noqa: E402 - needs the path above

from jupyter_gpufit.cuda.slot import as_slot  # noqa: E402
from jupyter_gpufit.devices.cards import find_card  # noqa: E402
from jupyter_gpufit.devices.speeds import TYPICAL, DeviceSpeed  # noqa: E402
from jupyter_gpufit.estimate.reckoning.record import Trace  # noqa: E402
from jupyter_gpufit.estimate.tracing.trace import trace_cell  # noqa: E402
from jupyter_gpufit.fit.ladder import fitted, moved, watchers  # noqa: E402
from jupyter_gpufit.fit.plan import Plan  # noqa: E402
from tests.fit.ledger import Ledger, foreseen  # noqa: E402

predicted = foreseen  # as the other parts of the benchmark call it
CARD = find_card("NVIDIA A100-SXM4-40GB").card
CELL = """
import torch
from torch import nn
from torch.nn import functional as F
from bench.fit_models import {model} as Model

torch.manual_seed(0)
with torch.device("cuda"):
    model = Model({size})
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)  # as a GPU does it by itself
for step in range(2):
    x, y = model.batch("cuda")
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def traced(model: str, plan: Plan, size: str = "", speed: DeviceSpeed = TYPICAL) -> Trace:
    trace = trace_cell(CELL.format(model=model, size=size), dict, CARD, plan=plan, speed=speed)
    assert trace.status == "completed", trace.error
    return trace


def counted(model: str, plan: Plan, size: str = "") -> dict[str, Any]:
    """What really happened: bytes at the peak, seconds, and a digest of the weights' bits."""
    return in_a_fork(lambda: _counted(model, plan, size))


def _counted(model: str, plan: Plan, size: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {}
    with as_slot("bench", 1 << 40), Ledger() as ledger, fitted(plan):
        watchers.append(ledger.follow)
        began = time.perf_counter()
        exec(compile(CELL.format(model=model, size=size), "<cell>", "exec"), namespace)
        took, peak = time.perf_counter() - began, ledger.peak
        digest = hashlib.sha256()
        for value in namespace["model"].state_dict().values():
            digest.update(value.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return {"peak": peak, "seconds": took, "bits": digest.hexdigest()} | asdict(moved())


def in_a_fork(function: Callable[[], Any]) -> Any:
    """What it returns, from a process that shares nothing with the next; this one has computed nothing yet."""
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            os.close(reads)
            torch.set_num_threads(1)  # with more, threads wait for each other on a machine that is busy
            with os.fdopen(writes, "w") as pipe:
                json.dump(function(), pipe)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writes)
    with os.fdopen(reads) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status:
        raise SystemExit("a benchmark's process failed")
    return json.loads(text)
