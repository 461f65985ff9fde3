"""Modules of TorchScript cross to another process: what is compiled, its class in the notebook, and its parameters."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch

from .crossing import Worker, notebook

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit")  # strangers use it all the same

CLASS = """
import torch
from torch import jit, nn
class Net(jit.ScriptModule):
    __constants__ = ["scale"]
    def __init__(self):
        super().__init__()
        self.scale, self.inner = 0.5, nn.Linear(4, 4)
    @jit.script_method
    def forward(self, x):
        rows = [torch.empty(0)] * 2
        for i in range(2):
            rows[i] = self.inner(x) * self.scale
        return torch.stack(rows)
torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
"""
TRAIN = """
for _ in range(3):
    loss = model(torch.ones(2, 4)).square().mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
another = Net()
"""


def _with_its_text(cell: str) -> dict[str, Any]:
    """As a notebook has it: TorchScript reads the text of what it compiles."""
    linecache.cache["<notebook>"] = len(cell), None, cell.splitlines(keepends=True), "<notebook>"
    return notebook(cell)


@pytest.mark.slow(5)
def test_a_class_with_script_methods_trains_there_and_makes_another(worker: Worker) -> None:
    plain = _with_its_text(CLASS)
    exec(TRAIN, plain)
    namespace = _with_its_text(CLASS)
    model = namespace["model"]

    worker.cross(namespace, TRAIN, "Net", "model", "optimizer")

    assert namespace["model"] is model and isinstance(namespace["another"], namespace["Net"])
    assert torch.equal(model.inner.weight, plain["model"].inner.weight)
    assert namespace["another"](torch.ones(1, 4)).shape == (2, 1, 4)


@pytest.mark.slow(1)
def test_what_was_compiled_shares_its_parameters_with_the_optimizer(worker: Worker) -> None:
    cell = (
        "import torch\nfrom torch import nn\ntorch.manual_seed(0)\n"
        "model = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))\n"
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    )
    namespace = notebook(cell)
    before = [one.detach().clone() for one in namespace["model"].parameters()]

    worker.cross(namespace, "model(torch.ones(2, 4)).sum().backward(); optimizer.step()", "model", "optimizer", "torch")

    after = list(namespace["model"].parameters())
    assert not torch.equal(before[0], after[0])
    assert [id(one) for one in after] == [id(one) for one in namespace["optimizer"].param_groups[0]["params"]]
