"""What one of k ranks takes is its part of what a forward keeps, and all of the parameters' four bytes' worth."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from jupyter_gpufit.estimate.showing.text import several
from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.group import ShapesOnly
from jupyter_gpufit.fit.sharing import PARAMETERS, Sharing
from jupyter_gpufit.units import format_bytes
from tests.estimate.asked import estimated
from tests.fit.models import GPT, WORDS, Pictures


def kept(make: type[nn.Module], size: int) -> tuple[int, float]:
    """Bytes that a forward keeps beside parameters, and bytes at rest in units of the parameters', without a value."""
    found: dict[int, int] = {}

    def pack(t: torch.Tensor) -> torch.Tensor:
        found[t.untyped_storage()._cdata] = t.untyped_storage().nbytes()
        return t

    with FakeTensorMode(), around(ShapesOnly(size)):
        model = make()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            words = torch.randint(0, WORDS, (16, 8))
            found.clear()
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                said = model(words)
            for p in model.parameters():
                found.pop(p.untyped_storage()._cdata, None)
            (said if said.dim() == 2 else F.log_softmax(said, -1)).mean().backward()
            optimizer.step()
            one = sum(found.values())
            at_rest = [t for p in model.parameters() for t in (p, p.grad, *optimizer.state[p].values())]
            optimizer.zero_grad()
        held = sum(t.untyped_storage().nbytes() for t in at_rest if t is not None)
        return one, held / sum(p.nbytes for p in model.parameters())


@pytest.mark.slow(9)
@pytest.mark.parametrize("make", [GPT, Pictures])
def test_a_forward_keeps_its_part_and_the_rest_is_four_times_the_parameters(make: type[nn.Module]) -> None:
    alone, at_rest = kept(make, 1)

    for size in (2, 4):
        part, of_rank = kept(make, size)
        assert part == pytest.approx(alone / size, rel=0.03)
        assert of_rank == pytest.approx(at_rest, rel=0.03) == pytest.approx(4, rel=0.03)


SETUP = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 256))
optimizer = torch.optim.AdamW(model.parameters())
"""
CELL = """
model.to("cuda")
for _ in range(100):
    loss = model(torch.randn(4096, 256, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.slow(10)
def test_an_estimate_for_each_of_several_is_what_a_formula_says() -> None:
    parameters = 4 * (256 * 1024 + 1024 + 1024 * 1024 + 1024 + 1024 * 256 + 256)
    told = {k: estimated(SETUP, CELL, sharing=Sharing(k)).estimate for k in (1, 2, 4)}

    assert [one.closed_form / parameters for one in told.values()] == pytest.approx([4, 4, 4], rel=0.03)
    kept = {k: told[k].by_kind["activations"] for k in told}
    whole = 4 * 4096 * 256  # bytes of the outputs, which the cell sees for all samples
    for k in (2, 4):
        assert kept[1] / k <= kept[k] <= 1.03 * (kept[1] / k + whole)
    split = [estimated(SETUP, CELL, sharing=Sharing(k, split=1)).estimate for k in (2, 4)]
    assert [one.closed_form / parameters for one in split] == pytest.approx([3.0, 2.5], rel=0.03)
    assert all(one.peak_allocated < told[k].peak_allocated for k, one in zip((2, 4), split, strict=True))
    in_parts = {k: estimated(SETUP, CELL, sharing=Sharing(k, split=PARAMETERS)).estimate for k in (2, 4)}
    assert [one.closed_form / parameters for one in in_parts.values()] == pytest.approx([2.0, 1.0], rel=0.03)
    text = several(told[1], [(Sharing(k), told[k], "") for k in (2, 4)])
    assert [line.split()[0] for line in text.splitlines()[2:]] == ["1", "2", "4"]
    assert f"{format_bytes(told[4].need or 0)}" in text.splitlines()[-1]


OF_ONE_MATRIX = """
import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(65536, 64), nn.Linear(64, 65536)
    def forward(self, x):
        return self.head(self.words(x).mean(1))
model = Reader()
optimizer = torch.optim.AdamW(model.parameters())
"""
READS = """
model.to("cuda")
for _ in range(100):
    x = torch.randint(0, 65536, (4, 8), device="cuda")
    loss = nn.functional.cross_entropy(model(x), x[:, 0])
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""


@pytest.mark.slow(10)
@pytest.mark.parametrize("size", [2, 4])
def test_a_model_that_is_all_large_matrices_needs_no_more_than_its_parts(size: int) -> None:
    parameters = 4 * (2 * 65536 * 64 + 65536)

    told = estimated(OF_ONE_MATRIX, READS, sharing=Sharing(size, split=PARAMETERS)).estimate

    assert told.closed_form / parameters == pytest.approx(4 / size, rel=0.03)
    step = 1 / size  # what AdamW's step makes beside its parts
    assert told.peak_allocated - told.by_kind["workspaces"] <= 1.03 * parameters * (4 / size + step)
