"""A training on a range of devices goes on on more when some become free, and on fewer when others wait."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel, environment, running_kernel
from tests.worker.ranks.test_ranks import SET_UP as IN_SINGLE
from tests.worker.ranks.test_ranks import losses, near, nothing_is_held, scratch, until

pytestmark = [pytest.mark.slow(60), pytest.mark.usefixtures("no_worker_outlives_its_test")]
SET_UP = IN_SINGLE + "net.double(); x, y = x.double(), y.double()\n"  # over so many steps roundings would grow
CELL = """
for step in range(400):
    at = step * 10 % 64
    loss = (net(x[at:at + 10]) - y[at:at + 10]).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item()); time.sleep(0.0 if os.path.exists({hold!r}) else 0.3)
"""


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    more = {"GPUFIT_DEVICES": "cpu:4x1GiB", "GPUFIT_REPLAN": "0.5", "TMPDIR": str(home)}
    return environment(home, GPUFIT_SPARE_WORKER="1", GPUFIT_ESTIMATE_LIMIT="0", **more)


@pytest.fixture(scope="module")
def kernel(home: Path, env: dict[str, str]) -> Iterator[Kernel]:
    with running_kernel(env, home) as kernel:
        yield kernel


@contextmanager
def another(env: dict[str, str], home: Path, gpus: int) -> Iterator[subprocess.Popen[bytes]]:
    """A command that holds, or waits for, so many devices until its standard input is closed."""
    command = [sys.executable, "-m", "jupyter_gpufit", "run", "--name", "other", "--gpus", str(gpus), "--", "cat"]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, cwd=home) as running:
        try:
            yield running
        finally:
            assert running.stdin is not None
            running.stdin.close()
            running.wait()


def held(env: dict[str, str]) -> dict[str, int]:
    """How many devices each job holds."""
    found: dict[str, int] = {}
    for claim in json.loads(gpufit(env, "status", "--json").stdout)["claims"]:
        found[claim["name"]] = max(found.get(claim["name"], 0), len(claim["devices"]))
    return found


MIXES = """
from torch import nn
class Mixes(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)
    def forward(self, x):
        return self.mix(x).sort(0).values / len(x)
net, losses = Mixes().double().to('cuda'), []
opt = torch.optim.Adam(net.parameters())
"""
OF_MIXED = """
for step in range(400):
    loss = net(torch.randn(16, 8, dtype=torch.double, device='cuda')).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
    losses.append(loss.item()); time.sleep(0.0 if os.path.exists({hold!r}) else 0.3)
"""


@pytest.mark.slow(13)
def test_on_one_where_its_model_cannot_be_computed_in_parts(kernel: Kernel, env: dict[str, str], home: Path) -> None:
    hold = home / "seen"
    kernel.check(SET_UP + MIXES)
    sent = kernel.send(f"%%gpufit train --gpus 2 --name mixed\n{OF_MIXED.format(hold=str(hold))}")
    ran = kernel.until(sent, "continues on one device, cpu:0, instead of 2")
    assert held(env) == {"mixed": 1}
    assert "Mixes is computed whole on each of the 2 devices, as on one: what it returns differs by" in ran.shown
    hold.touch()
    ran = kernel.finish(sent)
    assert ran.ok, ran.traceback
    found = losses(kernel)
    kernel.check(SET_UP + MIXES + OF_MIXED.format(hold=str(hold)))
    assert found == losses(kernel)
    nothing_is_held(env)


@pytest.mark.slow(65)
def test_on_more_when_they_become_free_and_on_fewer_when_another_waits(
    kernel: Kernel, env: dict[str, str], home: Path
) -> None:
    kernel.check(SET_UP)
    hold = home / "enough"
    with another(env, home, 2):
        until(lambda: 2 in held(env).values())
        sent = kernel.send(f"%%gpufit train --gpus 1-4 --name elastic\n{CELL.format(hold=str(hold))}")
        kernel.until(sent, "data parallel over")
        assert held(env)["elastic"] == 2
    ran = kernel.until(sent, "the change took")
    assert "continues on 4 devices, cpu:0, cpu:1, cpu:2 and cpu:3, instead of 2: about " in ran.shown
    with another(env, home, 1) as waits:
        until(lambda: len(held(env)) == 2)
        assert waits.poll() is None
        ran = kernel.until(sent, "continues on 3 devices")
        assert "instead of 4, since your other waits: " in ran.shown
        hold.touch()
        ran = kernel.finish(sent)
    assert ran.ok, ran.traceback
    found = losses(kernel)
    kernel.check(SET_UP + CELL.format(hold=str(hold)))
    near(found, losses(kernel))
    nothing_is_held(env)
    until(lambda: not scratch(home))
