"""A cell whose optimizer fits on no device trains on two, each with a part of its state; its checkpoint is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel
from tests.worker.ranks.split_story import killed_and_resumed

pytestmark = [pytest.mark.slow(10), pytest.mark.usefixtures("no_worker_outlives_its_test")]
SET_UP = """
import json, os, time, torch
torch.manual_seed(0)
from torch.nn import Linear, ReLU, Sequential
net = Sequential(Linear(64, 2048), ReLU(), Linear(2048, 8192), Linear(8192, 8))
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
x = torch.randn(32, 64); y = x[:, :8].clone(); losses = []
"""
CELL = """
net.to('cuda'); x, y = x.to('cuda'), y.to('cuda')
for step in range(6):
    loss = (net(x) - y).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item()); print('step', step)
    while step == 2 and {stands} and not os.path.exists({hold!r}): time.sleep(0.01)
"""
WHOLE = (
    "print(json.dumps([losses, [[*one['exp_avg'].shape, one['exp_avg'].norm().item()] for one in opt.state.values()]]))"
)


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(
        home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="120", GPUFIT_DEVICES="cpu:2x440MiB", TMPDIR=str(home)
    )


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.mark.slow(14)
def test_saved_by_one_and_gone_on_with_on_two(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    words = "data parallel with its optimizer's state split over cpu:0 and cpu:1"
    own, states = killed_and_resumed(kernel, env, home, "split", SET_UP, CELL, WHOLE, words)
    assert [one[:-1] for one in own] == [one[:-1] for one in states]
    assert [one[-1] for one in own] == pytest.approx([one[-1] for one in states], rel=1e-4)
