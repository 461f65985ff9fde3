"""Models, optimizers and arrays that the user's own modules hold: trained by a cell as by an ordinary one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import gpufit
from tests.kernels import Kernel

pytestmark = pytest.mark.slow

NET = """
import logging
import numpy as np
import torch

torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.StepLR(opt, 2)
ema = [p.detach().clone() for p in net.parameters()]
hist = np.zeros(9)
last = hist[3:]
log = logging.getLogger(__name__)
config = {"scale": 1}

class Meter:
    best = torch.zeros(2)
    def __init__(self):
        self.total, self.count = torch.zeros(()), 0

def counting():
    seen = torch.zeros(1)
    def count():
        seen.add_(1)
        return seen
    return count

def remember(x, past=np.zeros(3), *, first=np.zeros(1)):
    past[0] += x
    first[0] = past[0]
    return past, first

meter, count = Meter(), counting()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
# It brings the model under a name of its own, and the module of it is imported before: no import leads from one to it.
ENGINE = """
import torch
from NET import config, count, ema, hist, last, meter, net as model, opt, remember, sched
import NET

def step(i):
    opt.zero_grad()
    loss = model(torch.tensor([[1.0, 2.0], [3.0, -1.0]], device=NET.device) * (i + 1)).pow(2).sum() * config["scale"]
    loss.backward()
    opt.step()
    sched.step()
    with torch.no_grad():
        for one, p in zip(ema, model.parameters()):
            one.mul_(0.9).add_(p.to(one.device), alpha=0.1)
    hist[i] = loss.item()
    meter.total += loss.detach().to(meter.total.device)
    meter.count += 1
    count()
    remember(i)
    NET.Meter.best[i % 2] = loss.item()

def told(one):
    if isinstance(one, torch.Tensor):
        return one.detach().cpu().tolist(), str(one.device), one.requires_grad
    if isinstance(one, dict):
        return {key: told(value) for key, value in one.items()}
    return [told(value) for value in one] if isinstance(one, list) else one

def seen():
    return told([
        list(model.parameters()), list(model.buffers()), [p.grad for p in model.parameters()], ema, hist.tolist(),
        last.tolist(), last.base is hist, count(), [one.tolist() for one in remember(0)], opt.state_dict(),
        [meter.total, meter.count, type(meter).best],
        sched.state_dict(), NET.net is model, NET.opt is sched.optimizer, NET.meter is meter, config is NET.config,
    ])
"""
BEFORE = (
    "import torch, os, time, {0}, {1}\nfrom {0} import net, hist\n"
    "net.to({0}.device); net[0].bias.requires_grad_(False); {0}.config['scale'] = 2\n"
    "with torch.no_grad(): net[0].weight.mul_(2)\n"
)
BETWEEN = "with torch.no_grad(): net[2].weight.add_(0.5)\n"


@pytest.fixture(scope="module", autouse=True)
def modules(home: Path, kernel: Kernel) -> None:
    (home / "lib").mkdir()
    for name in ("plain", "own"):
        (home / "lib" / f"{name}_net.py").write_text(NET)
        (home / "lib" / f"{name}_engine.py").write_text(ENGINE.replace("NET", f"{name}_net"))
    kernel.check(f"import sys; sys.path.insert(0, {str(home / 'lib')!r})")


def test_they_are_trained_there_and_here(
    kernel: Kernel, env: dict[str, str], hold: Path, no_worker_outlives_its_test: None
) -> None:
    for cell in (BEFORE, "for i in range(3): {1}.step(i)", BETWEEN, "for i in range(3, 6): {1}.step(i)", "{1}.step(6)"):
        kernel.check(cell.format("plain_net", "plain_engine"))

    kernel.check(BEFORE.format("own_net", "own_engine"))
    kernel.check("%%gpufit train\nfor i in range(3): own_engine.step(i)\n")
    kernel.check(BETWEEN)
    sent = kernel.send(
        "%%gpufit train --name own\n"
        "for i in range(3, 6):\n"
        "    own_engine.step(i)\n"
        "    print('step', i)\n"
        f"    while i == 4 and not os.path.exists({str(hold)!r}): time.sleep(0.01)\n"
    )
    kernel.until(sent, "step 4")
    assert gpufit(env, "release", "own").returncode == 0
    kernel.finish(sent)
    hold.touch()
    kernel.check("%gpufit resume own")
    kernel.check("own_engine.step(6)")

    kernel.check("expected, found = plain_engine.seen(), own_engine.seen()")
    kernel.check("assert str(expected) == str(found), [(a, b) for a, b in zip(expected, found) if str(a) != str(b)]")
    kernel.check("assert net is own_net.net is own_engine.model and hist is own_net.hist")


def test_one_that_cannot_travel_is_named_and_the_cell_has_the_imports_own(home: Path, kernel: Kernel) -> None:
    (home / "lib" / "guarded_net.py").write_text(
        "import threading, torch\n"
        "class Guarded:\n"
        "    def __init__(self): self.weights, self.lock = torch.zeros(2), threading.Lock()\n"
        "net = Guarded()\n"
    )
    kernel.check("import guarded_net\nguarded_net.net.lock.acquire(); guarded_net.net.weights += 1")

    ran = kernel.check("%%gpufit train\nfound = guarded_net.net.weights.tolist()\n")

    assert "guarded_net.net does not travel, and is as its import makes it: it is " in ran.shown
    kernel.check("assert found == [0, 0] and guarded_net.net.weights.tolist() == [1, 1]")
