"""What earlier cells have left under names that a training cell reads: as in the notebook, or refused at once."""

from __future__ import annotations

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

SET_UP = """
import os, time, torch
torch.manual_seed(0)
embed, net = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 1)
opt, y = torch.optim.SGD(net.parameters(), 0.1), torch.rand(8, 1)
features = torch.stack([torch.cat([row[:2], row[2:]]) for row in embed(torch.arange(8))])
loss = torch.nn.functional.mse_loss(net(features), y)
print('before training:', loss.item())
"""
LOOP = """
for step in range(6):
    loss = torch.nn.functional.mse_loss(net(features), y)
    opt.zero_grad(); loss.backward(retain_graph=True); opt.step()
    {more}
print('after it:', loss.item().hex(), [p.tolist() for p in net.parameters()])
"""


@pytest.fixture
def notebook(kernel: Kernel, no_worker_outlives_its_test: None) -> Kernel:
    return kernel


def test_a_loss_of_a_first_look_and_features_with_a_graph(notebook: Kernel, env: dict[str, str], home: object) -> None:
    hold = f"{home}/go-on"
    plain = notebook.check(SET_UP + LOOP.format(more="")).stdout.splitlines()[-1]
    notebook.check(SET_UP)
    more = f"print('step', step)\n    while step == 3 and not os.path.exists({hold!r}): time.sleep(0.02)"
    sent = notebook.send("%%gpufit train --name looks\n" + LOOP.format(more=more))
    began = notebook.until(sent, "step 3").shown
    assert gpufit(env, "release", "looks").returncode == 0
    notebook.finish(sent)
    notebook.check(f"open({hold!r}, 'w').close()")
    resumed = notebook.run("%gpufit resume looks")

    assert "features was computed in an earlier cell: gradients end there" in began and "loss was" not in began
    assert resumed.ok and resumed.stdout.splitlines()[-1] == plain, resumed


def test_one_whose_layer_is_trained_is_refused_before_anything_starts(notebook: Kernel) -> None:
    notebook.check(SET_UP)
    ran = notebook.run("%%gpufit train\nopt.add_param_group({'params': embed.parameters()})" + LOOP.format(more=""))

    assert ran.ename == "CannotTravel" and "features (used in line 4 of the cell)" in ran.evalue, ran
    assert "live autograd graph (StackBackward0)" in ran.evalue and "Nothing was started." in ran.evalue


@pytest.mark.parametrize("first", ["threading.Lock()", "tempfile.TemporaryFile()"])
def test_what_an_earlier_cell_had_under_the_name_of_a_loops_own_is_not_missed(notebook: Kernel, first: str) -> None:
    notebook.check(f"import tempfile, threading\nbatch = {first}\nif hasattr(batch, 'acquire'): batch.acquire()")
    ran = notebook.run(
        "%%gpufit train\nfor step in range(3):\n    batch = step\n    print(batch)\nprint('last', batch)"
    )
    assert ran.ok and "last 2" in ran.stdout, ran
    assert "The cell begins without batch, which it sets itself: batch is " in ran.shown
    assert notebook.check("print(batch)").stdout == "2\n"

    notebook.check(f"batch = {first}\nif hasattr(batch, 'acquire'): batch.acquire()")
    refused = notebook.run("%%gpufit train\nfor step in range(3):\n    print(batch)\n    batch = step")
    assert refused.ename == "CannotTravel" and "batch (used in line 3 of the cell)" in refused.evalue, refused
