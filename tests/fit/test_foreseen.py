"""What a trial run foresees of the memory under a plan, against what is counted when the same cell runs under it."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

import pytest

from jupyter_gpufit.cuda.slot import as_slot
from jupyter_gpufit.estimate.reckoning.parts import facts_of
from jupyter_gpufit.estimate.reckoning.record import Trace
from jupyter_gpufit.estimate.tracing.trace import trace_cell
from jupyter_gpufit.fit.ladder import RUNGS, fitted, moved, watchers
from jupyter_gpufit.fit.plan import Plan
from jupyter_gpufit.units import GiB
from tests.estimate.traced import A100

from .ledger import Ledger, foreseen

pytestmark = pytest.mark.slow

WORST, MEDIAN = 0.06, 0.02
CELL = """
import torch
from torch.nn import functional as F
from bench.fit_models import {model} as Model
torch.manual_seed(0)
with torch.device("cuda"):
    model = Model()
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)  # as a GPU does it by itself
for _ in range(2):
    x, y = model.batch("cuda")
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def traced(cell: str, plan: Plan) -> Trace:
    trace = trace_cell(cell, dict, A100, plan=plan)
    assert trace.status == "completed", trace.error
    return trace


def counted(cell: str, plan: Plan) -> tuple[int, int]:
    """Bytes on the device at the peak, and on the host."""
    namespace: dict[str, Any] = {}
    with as_slot("cpu:0", 64 * GiB), Ledger() as ledger, fitted(plan):
        watchers.append(ledger.follow)
        try:
            exec(compile(cell, "<cell>", "exec"), namespace)
        finally:
            watchers.remove(ledger.follow)
        return ledger.peak, moved().taken


def furthest(plain: Trace) -> Iterator[Plan]:
    """As it is, and of each rung all that it can do; of a steep one the first that it can."""
    yield Plan()
    for rung in RUNGS:
        if notches := rung.notches(facts_of(plain)):
            yield Plan().under(rung, notches[0 if rung.STEEP else -1])


@pytest.mark.slow(13)
@pytest.mark.parametrize("model", ["Dense", "Pictures", pytest.param("Words", marks=pytest.mark.soak)])
def test_the_peak_of_each_rung_is_foreseen(model: str) -> None:
    cell = CELL.format(model=model)
    plain, errors, rungs = traced(cell, Plan()), {}, set()
    for plan in furthest(plain):
        trace = traced(cell, plan) if plan.parts else plain
        took, host = counted(cell, plan)
        errors[plan.words] = abs(foreseen(trace) / took - 1)
        rungs |= {*plan.parts}
        assert bool(host) == bool(trace.on_host), plan.words

    assert rungs >= {"recompute", "micro-batches", "spill"}
    assert max(errors.values()) <= WORST, errors
    assert model == "Words" or median(errors.values()) <= MEDIAN, errors  # its masks of dropout have other kernels
