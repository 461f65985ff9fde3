"""Published measurements, and how far the estimates are from them. No constant was fitted to any of these rows.

BERT-large: transformers' documentation, "Model training anatomy" and "Methods and tools for efficient training on a
single GPU" (v4.27), Apache-2.0; January 2022, V100-SXM2, transformers 4.15, torch 1.10, sequences of 512 random tokens.
The figure is NVML's; the context (1343 MiB) was measured there too. Three of these rows came out 10 to 14 % too low
until the test's model kept what torch 1.10 kept: the input of each softmax, 64 MiB a layer (see bert.OldSoftmax).

Llama 2: litgpt's tutorials/resource-tables.md (October 2023), Apache-2.0; A100-SXM4-40GB, torch 2.1, bf16-true, LoRA,
1304 tokens; `torch.cuda.max_memory_allocated()`. Not run: BERT-large with 8-bit Adam (13085 and 5363 MiB), whose
kernels cannot be traced.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cache

import pytest

from jupyter_gpufit.estimate.allocator import Replay, replay, smallest_capacity
from jupyter_gpufit.estimate.cards import find_card
from jupyter_gpufit.estimate.record import Trace
from jupyter_gpufit.estimate.trace import trace_cell
from jupyter_gpufit.units import MiB

pytestmark = [pytest.mark.slow, pytest.mark.accuracy]

CONTEXT = 1343 * MiB  # measured on that V100 after a 1x1 tensor
MEDIAN, WORST = 2.0, 5.0  # percent, by how much we may be off
COSTLY = 5.0  # percent below the measured, which is the margin that a claim adds


@dataclass(frozen=True)
class Row:
    name: str
    measured: float  # bytes
    cell: str
    card: str
    with_context: bool = False  # the figure is of the whole process: reserved and context
    cause: str = ""  # of a difference beyond WORST


BERT = """
import torch
from tests.estimate.bert import Adafactor, Bert
model = Bert(recompute={recompute}).to("cuda")
optimizer = {optimizer}
scaler = torch.amp.GradScaler("cuda", enabled={half})
for step in range(100):
    for micro in range({accumulate}):
        ids = torch.randint(100, 30000, ({batch}, 512)).to("cuda")
        labels = torch.randint(0, 2, ({batch},)).to("cuda")
        with torch.autocast("cuda", dtype=torch.float16, enabled={half}):
            loss = model(ids, labels) / {accumulate}
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    scaler.step(optimizer)
    scaler.update()
    model.zero_grad(set_to_none=False)
"""
ADAMW = "torch.optim.AdamW(model.parameters(), foreach=False)"
ADAFACTOR = "Adafactor(model.parameters())"

LLAMA = """
import torch
from tests.estimate.llama import Llama, loss_of
model = Llama({layers}, {heads}, {width}, {inner}).to("cuda", torch.bfloat16)
for name, parameter in model.named_parameters():
    parameter.requires_grad_(name.endswith(("attn.down", "attn.up")))
trained = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=3e-4, weight_decay=0.01)
for step in range(100):
    ids = torch.randint(0, 32000, ({batch}, 1304)).to("cuda")
    loss = loss_of(model(ids), ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def bert(
    name: str, measured: int, *, batch: int, accumulate: int = 1, optimizer: str = ADAMW, cause: str = "", **on: bool
) -> Row:
    options = {"half": False, "recompute": False} | on
    cell = BERT.format(batch=batch, accumulate=accumulate, optimizer=optimizer, **options)
    return Row(f"BERT-large {name}", measured * MiB, cell, "Tesla V100-SXM2-16GB", with_context=True, cause=cause)


def llama(name: str, gigabytes: float, *, batch: int, layers: int, heads: int, width: int, inner: int) -> Row:
    cell = LLAMA.format(batch=batch, layers=layers, heads=heads, width=width, inner=inner)
    return Row(f"Llama-2 LoRA {name}", gigabytes * 1e9, cell, "NVIDIA A100-SXM4-40GB")


SMALL = {"layers": 32, "heads": 32, "width": 4096, "inner": 11008}
LARGE = {"layers": 40, "heads": 40, "width": 5120, "inner": 13824}
ROWS = (
    bert("4, fp32 AdamW", 14949, batch=4),
    bert("1 x 4", 8681, batch=1, accumulate=4),
    bert("1 x 4, checkpointing", 6775, batch=1, accumulate=4, recompute=True),
    bert("4, fp16", 13939, batch=4, half=True),
    bert("1 x 4, checkpointing, fp16", 7275, batch=1, accumulate=4, recompute=True, half=True),
    bert("4, Adafactor", 12295, batch=4, optimizer=ADAFACTOR),
    bert("1 x 4, ckpt, fp16, Adafactor", 4847, batch=1, accumulate=4, recompute=True, half=True, optimizer=ADAFACTOR),
    llama("7B, 1", 21.30, batch=1, **SMALL),
    llama("7B, 2", 29.07, batch=2, **SMALL),
    llama("13B, 1", 38.12, batch=1, **LARGE),
)


@cache
def traced(row: Row) -> tuple[Trace, Replay]:
    trace = trace_cell(row.cell, dict, find_card(row.card).card, steps=3, limit=300)
    assert trace.status in ("stopped", "completed"), trace.error
    return trace, replay([block.size for block in trace.blocks], trace.changes)


def estimated(row: Row) -> float:
    run = traced(row)[1]
    return run.reserved + CONTEXT if row.with_context else run.allocated


def error(row: Row) -> float:
    """Percent; below zero the estimate is too low."""
    return 100 * (estimated(row) - row.measured) / row.measured


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_published_measurement_is_met(row: Row) -> None:
    assert abs(error(row)) <= WORST or row.cause, f"{error(row):+.1f} %"


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(table())  # noqa: T201 - the table is what a reader of the run wants to see

    assert statistics.median(abs(error(row)) for row in ROWS) <= MEDIAN
    assert [row.name for row in ROWS if error(row) < -COSTLY] == []


def table() -> str:
    """Measured and estimated, with the error and its cause; those that would cost somebody a run counted apart."""
    lines = [f"\n{'':36}{'measured':>12}{'estimated':>12}{'error':>10}"]
    for row in ROWS:
        figures = f"{row.measured / MiB:>8.0f} MiB{estimated(row) / MiB:>8.0f} MiB{error(row):>+8.1f} %"
        lines.append(f"{row.name:36}{figures}  {row.cause}")
    median = statistics.median(abs(error(row)) for row in ROWS)
    low = sum(error(row) < -COSTLY for row in ROWS)
    return "\n".join(
        [*lines, f"median error {median:.1f} %; too low by more than {COSTLY:.0f} %: {low} of {len(ROWS)}"]
    )


@pytest.mark.parametrize(("batch", "size"), [(4, SMALL), (2, LARGE)], ids=["7B, 4", "13B, 2"])
def test_what_ran_out_of_memory_is_said_to(batch: int, size: dict[str, int]) -> None:
    trace, run = traced(llama("", 1, batch=batch, **size))
    card = find_card("NVIDIA A100-SXM4-40GB").card

    assert smallest_capacity([block.size for block in trace.blocks], trace.changes, free_run=run) > card.total
