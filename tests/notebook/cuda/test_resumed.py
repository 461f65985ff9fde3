"""A job that was saved and resumed gives its notebook what is on `cuda`, as one that ran through.

Also where earlier cells made its batches' iterator, and wrapped its model for several GPUs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow(16)

SETUP = """
import os, time, torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(3)
net = torch.nn.Linear(4, 4).to(device)
parallel = torch.nn.DataParallel(net)
data = torch.utils.data.TensorDataset(torch.randn(64, 4))
batches = iter(torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=1)); shown = next(batches)
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
X, total, seen = torch.randn(8, 4), torch.zeros(1, device=device), []
"""
CELL = """
for step in range(6):
    loss = parallel(X + next(batches)[0]).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
    total += loss.detach(); seen.append(loss.item()); print("step", step)
    while step == 2 and not os.path.exists({hold!r}): time.sleep(0.02)
out = net(X.to(device)).detach()
"""
WHERE = "print(*[t.device for t in (net.weight, total, out, X, *(s['momentum_buffer'] for s in opt.state.values()))])"
PLAIN = """
net.cpu(); X, total = X.cpu(), total.cpu()
print(net.weight.sum().item().hex(), total.item().hex(), seen, next(batches))
"""


@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_what_a_resumed_job_gives_is_on_cuda(kernel: Kernel, second_kernel: Kernel, home: Path) -> None:
    kernel.check(SETUP + CELL.format(hold="/"))
    wanted = kernel.check(PLAIN).stdout
    for name, resumes in (("here", kernel), ("elsewhere", second_kernel)):
        hold = home / f"go-on-{name}"
        kernel.check(SETUP)
        sent = kernel.send(f"%%gpufit train --name {name}\n" + CELL.format(hold=str(hold)))
        kernel.until(sent, "step 2")
        second_kernel.check(f"%gpufit release {name}")
        kernel.finish(sent)
        hold.touch()

        resumes.check("import torch, os, time")
        resumes.check(f"%gpufit resume {name}")

        where = resumes.check(WHERE).stdout.split()
        assert where == ["cuda:0", "cuda:0", "cuda:0", "cpu", "cuda:0", "cuda:0"]
        assert resumes.check("print(net(X.to(device)).device)").stdout == "cuda:0\n"
        assert resumes.check(PLAIN).stdout == wanted
