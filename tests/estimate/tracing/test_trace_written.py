"""Whole numbers on a device that is not there are known in a trial run, and what is written of them, too."""

from __future__ import annotations

import pytest

from jupyter_gpufit.estimate.tracing.trace import trace_cell
from tests.estimate.traced import A100

BATCH = """
import torch
batch = torch.tensor([0, 0, 0, 1, 2, 2]).to("cuda")
"""
SEEN = {
    "what is written in place": """
count = batch.new_zeros(3).scatter_add_(0, batch, torch.ones_like(batch))
assert count.tolist() == [3, 1, 2] and int(count.max()) == 3
""",
    "what is written into what was empty": """
starts = batch.new_empty(4)
starts[0] = 0
torch.cumsum(torch.bincount(torch.tensor([0, 0, 0, 1, 2, 2])).to("cuda"), 0, out=starts[1:])
assert starts[batch].tolist() == [0, 0, 0, 3, 4, 4]
""",
    "a mask that is set at places": """
mask = torch.zeros(9, dtype=torch.bool, device="cuda")
mask[torch.tensor([0, 1, 2, 3, 6, 7]).to("cuda")] = True
assert torch.rand(3, 3, 5, device="cuda")[mask.view(3, 3)].shape == (6, 5)
assert torch.rand(3, 3, device="cuda")[~mask.view(3, 3)].shape == (3,)
""",
    "a view of what was written": """
row, table = batch[1:4], batch.view(2, 3)
batch[2] = 7
assert row.tolist() == [0, 7, 1] and table[0, 2].item() == 7 and row.clone().max() == 7
""",
    "what is added to by each of two": """
total = torch.zeros(2, dtype=torch.int64, device="cuda")
left, right = total[:1], total[1:]
left += 2
right.add_(batch.max())
assert total.tolist() == [2, 2]
""",
}
UNKNOWN = """
x = torch.rand(6, device="cuda")
most = torch.zeros(6, dtype=torch.int64, device="cuda")
most[:3] = 5
most[3:] = (x[3:] * 10).long()
"""


@pytest.mark.slow(2)
@pytest.mark.parametrize("cell", SEEN.values(), ids=SEEN.keys())
def test_is_known(cell: str) -> None:
    trace = trace_cell(BATCH + cell + "ended = True\n", dict, A100, limit=300.0)

    assert (trace.status, trace.error) == ("completed", "")
    assert not [note for note in trace.notes if "guessed" in note or "upper bound" in note], trace.notes


def test_what_nobody_knows_is_forgotten_with_all_that_shares_its_memory() -> None:
    trace = trace_cell("import torch\n" + UNKNOWN + "guess = most.max().item()\n", dict, A100, limit=300.0)

    assert trace.status == "completed" and trace.notes["value guessed for .item()"] == 1
