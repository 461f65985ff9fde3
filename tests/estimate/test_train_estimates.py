"""A training is estimated before it queues, claims what it needs, and what it took is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def kernel(home: Path) -> Iterator[Kernel]:
    """A kernel whose trainings are estimated first."""
    with running_kernel(environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="60"), home) as kernel:
        yield kernel


DEFINE = """
%load_ext jupyter_gpufit
import torch
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
optimizer = torch.optim.AdamW(model.parameters())
"""
CELL = """
model.to("cuda")
for i in range(5):
    loss = model(torch.randn(256, 512, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def states(home: Path) -> list[str]:
    """The reasons for which the newest job was queued."""
    journals = sorted(home.rglob("journal.jsonl"), key=lambda path: path.stat().st_mtime)
    entries = [json.loads(line) for line in journals[-1].read_text().splitlines()]
    return [entry["reason"] for entry in entries if entry["kind"] == "state" and entry["state"] == "queued"]


def lessons(home: Path) -> list[dict[str, object]]:
    found = list(home.rglob("learned.jsonl"))
    return [json.loads(line) for path in found for line in path.read_text().splitlines()]


def test_claims_the_estimate_and_learns_from_the_run(kernel: Kernel, home: Path) -> None:
    kernel.check(DEFINE)

    kernel.check("%%gpufit train" + CELL)
    first = states(home)[0]
    kernel.check("%%gpufit train" + CELL)
    second = states(home)[0]

    assert first.startswith("estimated ") and "claims" in first
    assert second.startswith("estimated ")
    one, two = lessons(home)
    assert one["key"] == two["key"], "the same cell with the same shapes"
    assert one["kind"] == "slot" and one["measured"]


def test_what_the_user_asks_for_is_not_estimated(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train --memory 1GiB\nprint('hello')")

    assert states(home)[0] == "asks for what --memory says"


def test_a_cell_without_a_device_claims_a_whole_one_and_says_so(kernel: Kernel, home: Path) -> None:
    kernel.check("%%gpufit train\nprint('hello')")

    assert "whole device" in states(home)[0]


def test_an_error_of_the_cell_comes_from_the_run_and_not_from_the_estimate(kernel: Kernel, home: Path) -> None:
    ran = kernel.run("%%gpufit train\ntorch.ones(3, device='cuda') @ torch.ones(4, device='cuda')")

    assert ran.ename == "RuntimeError"
    assert "whole device" in states(home)[0]
