"""A training that stands still until a test lets it go on, and what its kernel itself makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import Kernel

# A training with a shuffled loader, dropout and momentum, whose numbers depend on every draw. It says each step, so
# that a test waits for a step and not for a time, and stands at `HOLD` until a file is there.
SET_UP = (
    "import os, time, torch\ntorch.manual_seed(7)\n"
    "net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)); also = net\n"
    "opt = torch.optim.AdamW(net.parameters(), lr=0.01); losses = []\n"
    "data = torch.utils.data.TensorDataset(torch.randn(40, 8), torch.randn(40, 1))\n"
    "loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True)\n"
)
CELL = (
    "for epoch in range(3):\n"
    "    for x, y in loader:\n"
    "        loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "        losses.append(loss.item().hex()); print('step', len(losses))\n"
    "        while len(losses) == 14 and not os.path.exists({hold!r}): time.sleep(0.02)\n"
)
DIGEST = (
    "import hashlib\nprint(hashlib.sha256(b''.join([t.detach().numpy().tobytes() for t in net.state_dict().values()]\n"
    "    + [t.numpy().tobytes() for s in opt.state.values() for t in s.values()]\n"
    "    + [' '.join(losses).encode(), torch.get_rng_state().numpy().tobytes()])).hexdigest())"
)


@pytest.fixture
def hold(home: Path, request: pytest.FixtureRequest) -> Path:
    """While this file is not there, the cell stands at its 14th step."""
    return home / f"go-on-{request.node.name}"


@pytest.fixture(scope="module")
def plain(kernel: Kernel) -> str:
    """What the kernel itself makes of the cell."""
    kernel.check(SET_UP + CELL.format(hold="/"))
    return kernel.check(DIGEST).stdout


def started(kernel: Kernel, name: str, hold: Path, options: str = "") -> str:
    """Set up, and start the cell, which then stands at its 14th step."""
    kernel.check(SET_UP)
    sent = kernel.send(f"%%gpufit train --name {name} {options}\n" + CELL.format(hold=str(hold)))
    kernel.until(sent, "step 14\n")
    return sent
