"""What earlier cells have put on `cuda` is traced as being there."""

from __future__ import annotations

import json

import pytest

from tests.kernels import Kernel

pytestmark = pytest.mark.slow(8)

SETUP = """
import torch
from torch import nn
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Sequential(nn.Linear(256, 1024), nn.BatchNorm1d(1024), nn.ReLU(), nn.Linear(1024, 256)).to(device)
tied = nn.Linear(256, 256, bias=False).to(device); tied.also = tied.weight; row = tied.weight[0]
optimizer = torch.optim.AdamW([*model.parameters(), *tied.parameters()])
context = torch.amp.autocast("cuda", dtype=torch.bfloat16)
X = torch.randn(512, 256); Y = torch.randn(512, 256, device=device); noise = Y * 0.1
assert noise.is_cuda and row.is_cuda
"""
CELL = """
for step in range(10**9):
    with context:
        loss = nn.functional.mse_loss(tied(model(X.to(device))), Y + noise)
    optimizer.zero_grad(); loss.backward(); optimizer.step()
print("not reached")
"""


def told(kernel: Kernel, cell: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(kernel.check('%%gpufit estimate --on "NVIDIA L4" --json' + cell).shown)
    return found


def test_a_model_of_an_earlier_cell_is_on_the_device(kernel: Kernel) -> None:
    kernel.check(SETUP)
    elsewhere = told(kernel, CELL)
    inside = told(kernel, SETUP + CELL)

    parameters = 4 * (256 * 1024 * 2 + 1024 + 256 + 2 * 1024 + 256 * 256)
    for found in (elsewhere, inside):
        kinds = found["by_kind"]
        assert isinstance(kinds, dict)
        assert found["how"] == "trace" and kinds["parameters"] == parameters
        assert 2 * parameters <= kinds["optimizer state"] <= 2 * parameters + 4096
    assert elsewhere["flops_per_step"] == inside["flops_per_step"]
    assert isinstance(elsewhere["need"], int) and elsewhere["need"] == pytest.approx(inside["need"], rel=0.02)


def test_a_model_without_shapes_goes_to_the_device_when_it_gets_them(kernel: Kernel) -> None:
    """d2l's models. The first forward is in the cell, and `.to(device)` was in an earlier one."""
    lazy = SETUP.replace("nn.Linear(256, 1024)", "nn.LazyLinear(1024)").replace(
        "nn.BatchNorm1d(1024)", "nn.LazyBatchNorm1d()"
    )
    lazy = lazy.replace("optimizer =", "make = lambda:")
    kernel.check(lazy)

    found = told(kernel, "\noptimizer = make()" + CELL)

    assert found["how"] == "trace" and isinstance(found["by_kind"], dict)
    assert found["by_kind"]["parameters"] == 4 * (256 * 1024 * 2 + 1024 + 256 + 2 * 1024 + 256 * 256)


class Given:
    """Classes of tensors, as BigGAN has one for its noise."""

    cell = """
import torch
class Noise(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
    def begin(self, mean): self.mean_ = mean
    def draw(self): self.normal_(self.mean_, 1)
    def to(self, *args, **kwargs):
        new = Noise(self); new.begin(self.mean_); new.data = super().to(*args, **kwargs)
        return new
def made():
    z = Noise(torch.randn(64, 256)); z.begin(0)
    return z.to("cuda")
"""


@pytest.mark.parametrize("where", ["earlier", "in the cell"])
def test_a_tensor_of_the_users_own_class_has_its_methods(kernel: Kernel, where: str) -> None:
    kernel.check(Given.cell + "model = torch.nn.Linear(256, 8).cuda(); optimizer = torch.optim.SGD(model.parameters())")
    kernel.check("z = made()") if where == "earlier" else None
    begin = "" if where == "earlier" else "\nz = made()"
    loop = "\nfor step in range(9):\n    z.draw(); assert isinstance(z, Noise)\n"
    loop += "    optimizer.zero_grad(); model(z).mean().backward(); optimizer.step()\n"

    assert told(kernel, begin + loop)["how"] == "trace"


def test_after_a_training_the_optimizers_state_is_there_from_the_start(kernel: Kernel) -> None:
    kernel.check(SETUP)
    before = told(kernel, CELL)
    kernel.check("%%gpufit train" + CELL.replace("10**9", "2"))
    after = told(kernel, CELL)

    assert isinstance(before["by_kind"], dict) and isinstance(after["by_kind"], dict)
    assert after["how"] == "trace" and after["by_kind"]["optimizer state"] == before["by_kind"]["optimizer state"]
    assert after["need"] == pytest.approx(before["need"], rel=0.02)


def test_a_type_of_an_earlier_cell_makes_what_is_on_the_device(kernel: Kernel) -> None:
    kernel.check(SETUP + "Tensor = torch.cuda.FloatTensor if torch.cuda.is_available() else torch.FloatTensor\n")
    found = told(kernel, CELL.replace("X.to(device)", "Tensor(X.numpy()) + X.type(Tensor)"))

    assert found["how"] == "trace" and isinstance(found["need"], int)


def test_a_length_that_a_module_keeps_on_the_device_is_known(kernel: Kernel) -> None:
    """As a synthesizer's block size: the lengths of all that it makes follow from it."""
    kernel.check(
        SETUP + "model.register_buffer('block', torch.tensor(20)); model.to(device); mask = (Y > 0).float()\n"
        "rest = int((1 - mask).sum())"
    )
    found = told(
        kernel,
        CELL.replace(
            "loss = ", "long = X.to(device).repeat(model.block, 1); assert len(long) == 20 * 512; loss = "
        ).replace("Y + noise", "Y * mask")
        + "assert int((1 - mask).sum()) == rest",
    )

    assert found["how"] == "trace" and found["confidence"] == "high", found


def test_both_sides_in_one_operation_are_an_error_as_on_a_gpu(kernel: Kernel) -> None:
    kernel.check(SETUP)

    ran = kernel.run('%%gpufit estimate --on "NVIDIA L4"\nloss = model(X)')

    assert ran.ename == "CellFailedInTrial" and "cpu" in ran.evalue and "cuda" in ran.evalue


GRAPH = """
import torch
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
places, values = torch.randint(0, 50, (2, 90)), torch.rand(90)
adjacency = torch.sparse_coo_tensor(places, values, (50, 50)).coalesce().to(device)
rows = adjacency.to_sparse_csr()
w = torch.randn(50, 8, device=device, requires_grad=True)
opt = torch.optim.SGD([w], lr=0.01)
"""
TRAINED = """
for step in range(5):
    loss = (torch.sparse.mm(adjacency, w) + rows @ w).square().mean() + w[adjacency.indices()[0]].mean()
    opt.zero_grad(); loss.backward(); opt.step()
where = [str(one.device) for one in (adjacency, adjacency.values(), rows, rows.values(), w)]
made = adjacency * 2
"""


def test_a_sparse_matrix_of_an_earlier_cell_is_on_the_device(kernel: Kernel) -> None:
    kernel.check(GRAPH)
    found = told(kernel, TRAINED)
    kernel.check("%%gpufit train" + TRAINED)

    assert found["how"] == "trace" and found["confidence"] != "low"
    assert kernel.check("print(set(where), adjacency.device, made.device, rows.device)").stdout == (
        "{'cuda:0'} cuda:0 cuda:0 cuda:0\n"
    )
    ours = kernel.check("print(w.sum().item().hex(), made.to_dense().sum().item().hex())").stdout
    kernel.check(GRAPH + TRAINED)
    assert kernel.check("print(w.sum().item().hex(), made.to_dense().sum().item().hex())").stdout == ours
