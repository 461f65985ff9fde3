"""A notebook beside a GPU: its own process has no context there, and what it has on `cuda` trains on the GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import Kernel, environment, running_kernel

SETUP = """
import torch
from torch import nn
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0); torch.cuda.manual_seed(5)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).to(device)
weight, row = model[0].weight, model[0].weight.detach()[0]
tied = nn.Linear(8, 8, bias=False).to(device); tied.also = tied.weight
optimizer = torch.optim.AdamW([*model.parameters(), *tied.parameters()])
context, scaler = torch.amp.autocast("cuda", dtype=torch.bfloat16), torch.amp.GradScaler("cuda")
generator = torch.Generator(device="cuda").manual_seed(3)
X, Y = torch.randn(128, 64), torch.randint(8, (128,), device=device)
"""
TRAIN = """
assert weight.untyped_storage().device.type == "cuda" and row.data_ptr() == weight.data_ptr()
assert tied.also is tied.weight and next(iter(optimizer.state), weight).untyped_storage().device.type == "cuda"
drawn = [torch.rand(4, device="cuda"), torch.rand(4, device="cuda", generator=generator)]
for _ in range(3):
    with context:
        out = tied(model(X.to(device)))
        assert out.dtype == torch.bfloat16
        loss = nn.functional.cross_entropy(out.float(), Y)
    optimizer.zero_grad(); scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()
"""


@pytest.fixture(scope="module")
def beside_gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    home = tmp_path_factory.mktemp("home")
    with running_kernel(environment(home, GPUFIT_DEVICES="gpu"), home, cold=True) as kernel:
        yield kernel


def opened_by(pid: int) -> set[str]:
    return {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}


def test_setup_cells_make_no_context(beside_gpu: Kernel) -> None:
    shown = beside_gpu.check(
        SETUP + "import os; print(os.getpid(), torch.cuda.get_device_name(), weight.device)"
    ).stdout

    pid, *_, device = shown.split()
    # NVML opens the GPU, too; only a context opens this.
    assert device == "cuda:0" and "/dev/nvidia-uvm" not in opened_by(int(pid))
    assert "is a stand-in" in beside_gpu.check("%gpufit kernel").shown


def test_what_it_has_on_cuda_trains_on_the_gpu_and_comes_back(beside_gpu: Kernel) -> None:
    beside_gpu.check(SETUP + "was = weight.detach().cpu().clone()")
    beside_gpu.check("%%gpufit train" + TRAIN)
    beside_gpu.check(
        "assert model[0].weight is weight and weight.device == torch.device('cuda', 0) and drawn[0].is_cuda\n"
        "assert not torch.equal(weight.detach().cpu(), was) and torch.equal(row, weight.detach()[0])\n"
        "assert optimizer.state[weight]['exp_avg'].is_cuda and scaler._scale.is_cuda\n"
        "with context:\n"
        "    assert model(X.to(device)).dtype == torch.bfloat16\n"
        "first = [t.cpu() for t in drawn]\n"
    )


def test_the_gpus_random_numbers_go_on_where_the_last_training_left_them(beside_gpu: Kernel) -> None:
    draw = "drawn = [torch.rand(4, device='cuda'), torch.rand(4, device='cuda', generator=generator)]"
    beside_gpu.check(SETUP)
    beside_gpu.check(f"%%gpufit train\n{draw}\nfirst = drawn\n{draw}\nboth = first + drawn")
    beside_gpu.check(SETUP)
    for name in ("one", "two"):
        beside_gpu.check(f"%%gpufit train\n{draw}\n{name} = drawn")

    beside_gpu.check("assert all(torch.equal(a, b) for a, b in zip(both, one + two, strict=True))")


def test_a_kernel_that_was_there_first_is_told_what_it_holds(tmp_path: Path) -> None:
    with running_kernel(environment(tmp_path, GPUFIT_DEVICES="gpu"), tmp_path, load=False, cold=True) as kernel:
        kernel.check("import torch; kept = torch.ones(1 << 20, device='cuda')")
        said = kernel.check("%load_ext jupyter_gpufit").shown

        assert "it holds" in said and "restart the kernel" in said
        assert (
            kernel.check("print(kept.untyped_storage().device, torch.cuda.is_initialized())").stdout == "cuda:0 True\n"
        )
