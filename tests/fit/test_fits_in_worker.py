"""A cell that is too large for the device trains on it, to the bits that it would come to on a larger one."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.command_line import gpufit, jobs
from tests.kernels import Kernel, environment

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(home, GPUFIT_DEVICES="cpu:1x320MiB", GPUFIT_ESTIMATE_LIMIT="300", GPUFIT_SPARE_WORKER="1")


@pytest.fixture
def notebook(kernel: Kernel, no_worker_outlives_its_test: None) -> Kernel:
    return kernel


# Each block keeps nine times what it hands on, and does little else.
SET_UP = """
import os, time, torch
from torch import nn
torch.manual_seed(1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.drop = nn.Linear(16, 16), nn.Dropout(0.1)
    def forward(self, x):
        x = self.mix(x)
        for _ in range(8):
            x = torch.tanh(x)
        return self.drop(x)
net = nn.Sequential(*(Block() for _ in range(5)))
opt = torch.optim.AdamW(net.parameters(), 1e-3)
seen = []
"""
CELL = """
device = 'cuda' if torch.cuda.is_available() else 'cpu'; net = net.to(device)
for i in range(5):
    loss = net(torch.randn({rows}, 16).to(device)).square().mean()
    opt.zero_grad(); loss.backward(); opt.step(); seen.append(loss.item()); print('step', i)
    {more}
"""


# 99 MiB of weights, and three times that with gradients and momenta.
LARGE_SET_UP = """
import os, time, torch
from torch import nn
torch.manual_seed(1)
net = nn.Sequential(*(nn.Linear(1536, 1536, bias=False) for _ in range(11)))
opt = torch.optim.SGD(net.parameters(), 1e-3, momentum=0.9)
seen = []
"""
LARGE_CELL = """
device = 'cuda' if torch.cuda.is_available() else 'cpu'; net = net.to(device)
for i in range(5):
    loss = net(torch.randn(4, 1536).to(device)).square().mean()
    opt.zero_grad(); loss.backward(); torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step(); seen.append(loss.item()); print('step', i)
    {more}
"""


def as_one_cell(kernel: Kernel, cell: str, set_up: str = SET_UP) -> None:
    """It ended as it would have in the kernel."""
    kernel.check("trained, losses, states = [*net.parameters()], seen, opt.state_dict()['state']\n" + set_up)
    kernel.check(cell)
    kernel.check("""
assert seen == losses, (seen, losses)
assert all(torch.equal(p.cpu(), q.cpu()) for p, q in zip(net.parameters(), trained, strict=True))
for number, state in opt.state_dict()['state'].items():
    assert all(torch.equal(value.cpu(), states[number][name].cpu()) for name, value in state.items())
""")


@pytest.mark.slow(10)
def test_it_trains_by_recomputing_and_goes_on_so_from_a_checkpoint(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold = home / "go-on"
    notebook.check(SET_UP)
    # No trial run comes to the fourth step. Of two ways the quicker is taken, so this one is named.
    more = f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)"
    cell = CELL.format(rows=5 << 14, more=more)
    sent = notebook.send("%%gpufit train --name large --fit recompute\n" + cell)
    began = notebook.until(sent, "step 3").shown
    running = jobs(env)["large"]
    assert gpufit(env, "release", "large").returncode == 0
    notebook.finish(sent)

    assert "trains there by recomputing" in began and "the same result to the bit" in began
    assert "recomputing" in json.dumps(running), running
    hold.touch()
    resumed = notebook.run("%gpufit resume large")
    assert resumed.ok and "step 4" in resumed.stdout, resumed
    as_one_cell(notebook, cell)


@pytest.mark.slow(25)
def test_one_that_runs_out_goes_on_by_recomputing_and_begins_so_the_next_time(
    notebook: Kernel, env: dict[str, str]
) -> None:
    notebook.check(SET_UP)
    cell = CELL.format(rows="3 << 14 if i < 2 else 7 << 14", more="pass")  # later than a trial run looks
    # What lasts for less than two looks at a slot's memory may pass unseen.
    cell = cell.replace("opt.zero_grad()", "time.sleep(0.2 * (i > 1)); opt.zero_grad()")

    ran = notebook.run("%%gpufit train --name grows\n" + cell)

    assert ran.ok, ran
    assert "grows ran out of memory on all of cpu:0" in ran.shown
    assert (
        "It has no checkpoint, so it starts again from the beginning, by recomputing 3 of 5 blocks. That is slower"
        in ran.shown
    )
    assert "OutOfMemoryError" not in ran.stderr and jobs(env)["grows"]["state"] == "done"
    as_one_cell(notebook, cell)
    notebook.check(SET_UP)
    again = notebook.run("%%gpufit train --name again\n" + cell)
    # Of two ways the quicker is taken, and on a busy machine the other one may look so.
    assert (
        again.ok
        and re.search("trains there by (recomputing|spilling)", again.shown)
        and "ran out of memory on" not in again.shown
    )


@pytest.mark.soak  # the test above has the same without a checkpoint
def test_one_that_runs_out_goes_on_from_its_checkpoint_by_recomputing(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold = home / "go-on-to-larger-ones"
    notebook.check(SET_UP)
    cell = CELL.format(
        rows="3 << 14 if i < 4 else 7 << 14",
        more=f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)",
    )
    cell = cell.replace(
        "opt.zero_grad()", "time.sleep(0.2 * (i > 3)); opt.zero_grad()"
    )  # as above; a trial run under a plan makes three steps

    sent = notebook.send("%%gpufit train --name later\n" + cell)
    notebook.until(sent, "step 3")
    assert gpufit(env, "checkpoint", "later").returncode == 0
    hold.touch()
    ran = notebook.finish(sent)

    assert ran.ok, ran
    assert "later ran out of memory on all of cpu:0" in ran.shown, ran.shown
    assert re.search("It goes on from its checkpoint at step 4, by recomputing . of 5 blocks", ran.shown), ran.shown
    assert "step 4" in ran.stdout and "step 3" not in ran.stdout
    as_one_cell(notebook, cell)


@pytest.mark.slow(18)
def test_a_model_larger_than_the_device_is_spilled_and_goes_on_so_after_a_kill(
    notebook: Kernel, env: dict[str, str], home: Path
) -> None:
    hold = home / "go-on-spilled"
    notebook.check(LARGE_SET_UP)
    # A trial run under such a plan makes three steps.
    cell = LARGE_CELL.format(more=f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)")
    sent = notebook.send("%%gpufit train --name spilled\n" + cell)
    began = notebook.until(sent, "step 3").shown
    running = jobs(env)["spilled"]
    assert gpufit(env, "checkpoint", "spilled").returncode == 0
    os.kill(running["pid"], signal.SIGKILL)
    assert not notebook.finish(sent).ok

    assert "trains there by spilling to the host all but" in began and "of the host's memory" in began, began
    assert "of the host's memory)" in json.dumps(running), running
    names = saved_tensors(home)
    assert [names[f"net.{number}.weight"] for number in range(11)] == 11 * [[1536, 1536]], "as without a plan"
    hold.touch()
    resumed = notebook.run("%gpufit resume spilled")
    assert resumed.ok and "step 4" in resumed.stdout and "step 3" not in resumed.stdout, resumed
    as_one_cell(notebook, cell, LARGE_SET_UP)


def saved_tensors(home: Path) -> dict[str, list[int]]:
    """Names and shapes in the checkpoint's files."""
    found: dict[str, list[int]] = {}
    for path in home.rglob("*.safetensors"):
        with path.open("rb") as file:
            head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        found |= {name: one["shape"] for name, one in head.items() if name != "__metadata__"}
    return found
