"""Groups of processes in a traced cell: one process of them, with what it takes."""

from __future__ import annotations

import pytest

from tests.estimate.traced import peak_by_kind, traced

pytestmark = pytest.mark.slow

CELL = """
import os
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="1", RANK="0", WORLD_SIZE="{members}")
dist.init_process_group("nccl", init_method="env://")
assert dist.get_backend() == "nccl" and dist.get_world_size() == {members} and dist.get_rank() == 0
torch.cuda.set_device(0)
dist.barrier()
net = nn.Sequential(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 8)).cuda()
model = {parallel}
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(5):
    loss = model(torch.randn(32, 256, device="cuda")).square().mean()
    dist.all_reduce(loss.detach(), group=dist.new_group([0], backend="nccl"))
    parts = [torch.empty(2, device="cuda") for _ in range({members})]
    dist.all_gather(parts, torch.ones(2, device="cuda"))
    opt.zero_grad(); loss.backward(); opt.step()
if {members} == 1:
    said = [None]
    dist.all_gather_object(said, "of itself")
    assert said == ["of itself"]
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("members", "more"), [(1, ""), (2, ", static_graph=True"), (2, ", find_unused_parameters=True")]
)
def test_buckets_of_gradients_are_counted_and_nobody_is_waited_for(members: int, more: str) -> None:
    plain, parallel = (
        traced(CELL.format(members=members, parallel=one))
        for one in ("net", f"DistributedDataParallel(net, device_ids=[0]{more})")
    )

    for trace in (plain, parallel):
        assert (trace.status, trace.error, trace.steps) == ("completed", "", 2)
    most, without = peak_by_kind(parallel), peak_by_kind(plain)
    noted = 24 if "unused" in more else 0  # which of the six were used
    assert most["all"] - without["all"] == without["gradient"] + noted
