"""A job that runs out of what we guessed goes on with more, and the notebook sees one cell that ended well."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.command_line import gpufit, jobs
from tests.kernels import Kernel, environment

pytestmark = pytest.mark.slow(12)

SET_UP = (
    "import os, time, torch\ntorch.manual_seed(1); net = torch.nn.Linear(4, 1)\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1); seen, held = [], []\n"
)
# It is small while it is traced, and takes 800 MiB later.
GROWS = (
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'; net = net.to(device)\n"
    "for i in range(8):\n"
    "    loss = net(torch.randn(8, 4).to(device)).square().mean()\n"
    "    opt.zero_grad(); loss.backward(); opt.step(); seen.append(loss.item()); print('step', i)\n"
    "    {more}\n"
    "    if i == 5: held = [torch.ones(25 << 20) for _ in range(8)]\n"
    "    if i == 5: time.sleep(0.3)\n"
    "held = len(held)\n"
)


@pytest.fixture(scope="module")
def env(home: Path) -> dict[str, str]:
    return environment(home, GPUFIT_DEVICES="cpu:1x3GiB")


@pytest.fixture
def notebook(kernel: Kernel, no_worker_outlives_its_test: None) -> Kernel:
    return kernel


def _as_one_cell(kernel: Kernel) -> None:
    """It ends as it would have in the kernel."""
    kernel.check("trained, losses = [p.tolist() for p in net.parameters()], seen\n" + SET_UP)
    kernel.check(GROWS.format(more="pass"))
    kernel.check("assert held == 8 and seen == losses and [p.tolist() for p in net.parameters()] == trained")


# As trainers do, which have more to say.
BY_A_TRAINER = """
try:
{loop}except torch.OutOfMemoryError as error:
    raise RuntimeError("the training failed") from error
"""


@pytest.mark.slow(10)
@pytest.mark.parametrize("cell", ["{loop}", BY_A_TRAINER], ids=["as it is", "by a trainer"])
def test_from_its_start_where_it_has_no_checkpoint(notebook: Kernel, env: dict[str, str], cell: str) -> None:
    notebook.check(SET_UP)
    loop = GROWS.format(more="pass")

    ran = notebook.run(
        "%%gpufit train --name grows\n" + cell.format(loop=indent(loop, "    ") if "try" in cell else loop)
    )

    assert ran.ok, ran
    assert "claims 512.0 MiB" in ran.shown
    assert "grows needs more than the 512.0 MiB that were claimed for it" in ran.shown
    assert "It has no checkpoint, so it starts again from the beginning, with 1.0 GiB. What follows" in ran.shown
    assert "OutOfMemoryError" not in ran.stderr and jobs(env)["grows"]["state"] == "done"
    _as_one_cell(notebook)


@pytest.mark.slow(10)
def test_from_its_checkpoint(notebook: Kernel, env: dict[str, str], home: Path) -> None:
    hold = home / "go-on"
    notebook.check(SET_UP)
    held = f"while i == 3 and not os.path.exists({str(hold)!r}): time.sleep(0.02)"
    sent = notebook.send("%%gpufit train --name saved\n" + GROWS.format(more=held))
    notebook.until(sent, "step 3")
    assert gpufit(env, "checkpoint", "saved").returncode == 0
    hold.touch()

    ran = notebook.finish(sent)

    assert ran.ok, ran
    assert "It goes on from its checkpoint at step 4, with 1.0 GiB" in ran.shown
    assert ran.stdout.count("step 4") == 2 and ran.stdout.endswith("step 7\n")
    _as_one_cell(notebook)


def test_not_beyond_what_its_user_said(notebook: Kernel) -> None:
    notebook.check(SET_UP)

    ran = notebook.run("%%gpufit train --name limited --memory 512MiB\n" + GROWS.format(more="pass"))

    assert ran.ename == "OutOfMemoryError" and "goes on" not in ran.shown
