from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from jupyter_gpufit.cuda.slot import Budget
from jupyter_gpufit.cuda.slot.groups import gloo_for_nccl


@pytest.fixture
def alone(slot: Budget, tmp_path: Path) -> Iterator[None]:
    """A group of one, begun as programs for several GPUs begin it on one."""
    dist.init_process_group(
        backend="nccl",
        init_method=f"file://{tmp_path}/group",
        world_size=1,
        rank=0,
        device_id=torch.device("cuda:0"),
    )
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ("nccl", "gloo"),
        ("NCCL", "gloo"),
        ("cuda:nccl,cpu:gloo", "cuda:gloo,cpu:gloo"),
        ("cpu:gloo,cuda:nccl", "cpu:gloo,cuda:gloo"),
        ("mpi", "mpi"),
    ],
)
def test_gloo_takes_nccls_part_however_it_is_asked_for(asked: str, given: str) -> None:
    assert gloo_for_nccl(asked) == given


@pytest.mark.filterwarnings("ignore:.*is deprecated:FutureWarning")  # some of the names
@pytest.mark.parametrize(
    ("gather", "scatter"),
    [("all_gather_into_tensor", "reduce_scatter_tensor"), ("all_gather_single", "reduce_scatter_single")],
)
def test_collectives_into_flat_tensors_are_as_nccls(alone: None, gather: str, scatter: str) -> None:
    """accelerate gathers shapes so, and believes in NCCL."""
    if not hasattr(dist, gather):
        pytest.skip("a name that this torch has not")
    rows, flat = torch.tensor([[1.0, 2.0]], device="cuda"), torch.empty(2, device="cuda")
    getattr(dist, gather)(flat, rows)
    assert flat.tolist() == [1.0, 2.0]

    parts = torch.empty(1, 2, device="cuda")
    getattr(dist, scatter)(parts, torch.tensor([3.0, 4.0], device="cuda"))
    assert parts.tolist() == [[3.0, 4.0]]


@pytest.mark.slow
def test_a_program_for_several_gpus_trains_on_a_slot(alone: None) -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 2).cuda()
    plain = nn.Linear(4, 2).cuda()
    plain.load_state_dict(model.state_dict())
    ours = DistributedDataParallel(model, [0], output_device=0)
    x = torch.ones(3, 4, device="cuda")
    for one in (ours, plain):
        one(x).square().sum().backward()
    assert model.weight.grad is not None and plain.weight.grad is not None
    assert torch.equal(model.weight.grad, plain.weight.grad)
    assert ours(x).is_cuda
    dist.barrier(device_ids=[0])
    total = torch.ones(2, device="cuda")
    dist.all_reduce(total, group=dist.new_group([0], backend="nccl"))
    assert total.tolist() == [1, 1]
