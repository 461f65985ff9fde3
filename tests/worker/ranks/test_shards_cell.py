"""A cell whose parameters and gradients fit on no device trains on two, each with its part; its checkpoint is whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel
from tests.worker.ranks.split_story import killed_and_resumed
from tests.worker.ranks.test_ranks import nothing_is_held, standing

pytestmark = [pytest.mark.slow(50), pytest.mark.usefixtures("no_worker_outlives_its_test")]
SET_UP = """
import json, os, time, torch
torch.manual_seed(0)
from torch.nn import Linear, Sequential
net = Sequential(Linear(64, 1024), *(Linear(1024, 1024) for _ in range(16)), Linear(1024, 8))
opt = torch.optim.AdamW(net.parameters(), lr=1e-4)
x = torch.randn(32, 64); y = x[:, :8].clone(); losses = []
"""
CELL = """
print('pid', os.getpid()); net.to('cuda'); x, y = x.to('cuda'), y.to('cuda')
for step in range(6):
    loss = (net(x) - y).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item()); print('step', step)
    while step == 2 and {stands} and not os.path.exists({hold!r}): time.sleep(0.01)
"""
WHOLE = """
norms = [[*p.shape, p.norm().item(), p.grad.norm().item(), opt.state[p]['exp_avg'].norm().item()]
         for p in net.parameters()]
print(json.dumps([losses, norms]))
"""


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(
        home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="120", GPUFIT_DEVICES="cpu:2x330MiB", TMPDIR=str(home)
    )


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


@pytest.mark.soak  # of the ranks alone it is in every run: test_shards.py
def test_saved_by_one_and_gone_on_with_on_two(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    words = "with its state, gradients and parameters split over cpu:0 and cpu:1"
    own, norms = killed_and_resumed(kernel, env, home, "parts", SET_UP, CELL, WHOLE, words)
    assert [one[:-3] for one in own] == [one[:-3] for one in norms]
    for one, other in zip(own, norms, strict=True):
        assert one[-3:] == pytest.approx(other[-3:], rel=1e-3)


@pytest.mark.soak  # of the ranks alone it is in every run: test_shards.py
def test_of_parameters_that_were_lost_with_a_rank_nothing_comes_back(
    kernel: Kernel, env: dict[str, str], home: Path
) -> None:
    kernel.check(SET_UP + "before = [p.norm().item() for p in net.parameters()]")
    hold = home / "go-on-lost"
    sent = kernel.send(f"%%gpufit train --gpus 2 --name lost\n{CELL.format(stands=True, hold=str(hold))}")
    [other] = standing(kernel, sent, 2).others
    os.kill(other, signal.SIGKILL)
    hold.touch()
    ran = kernel.finish(sent)
    assert ran.ename == "RankLost" and "was ended by SIGKILL" in ran.evalue, ran.evalue
    assert "the notebook's variables are as they were before." in ran.shown
    same = kernel.check("print(before == [p.norm().item() for p in net.parameters()], losses)").stdout
    assert same == "True []\n"
    nothing_is_held(env)
