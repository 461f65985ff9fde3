"""What looks at bytes where torch's own notes do not say so: it finds them, though they were on the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import dlpack

from jupyter_gpufit.devices import sides
from jupyter_gpufit.errors import NotUnderPlan
from jupyter_gpufit.fit.rungs.pager import paged

from .models import GPT, WIDE, WORDS, batch, loss_of
from .runs import Step, differ, plain
from .test_pager import pager, trained


def in_inference_mode(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Where operations that are made of others are seen whole: a `reshape` may copy."""
    loss = plain(model, optimizer)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    with torch.inference_mode():
        looked = loss_of(model(words := batch()), words).double()
        looked = looked + sum(p.to(torch.float64).sum() for p in matrices)
        looked = looked + sum(p.t().reshape(-1).abs().sum() for p in matrices)
    return loss + looked.item()


def sparse_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """They have no storage, but hold tensors that have."""
    values = torch.randn(4000)
    sides.note(values)
    coo = torch.sparse_coo_tensor(torch.arange(4000)[None], values, (5000,))
    csr = torch.sparse_csr_tensor(torch.tensor([0, 4000]), torch.arange(4000), values * 2, (1, 5000))
    del values
    loss = plain(model, optimizer)
    return loss + coo.to_dense().sum() + (coo * 2).coalesce().values().sum() + (csr @ torch.ones(5000, 1)).sum()


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDE, sparse=True), nn.Linear(WIDE, WORDS)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.words(words))  # type: ignore[no-any-return]


def sparse_gradients(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    assert isinstance(model, Sparse)
    optimizer.param_groups[0]["params"] = list(model.head.parameters())
    sparse = torch.optim.SparseAdam([model.words.weight], 1e-2)
    for _ in range(2):
        loss_of(model(words := batch()), words).backward()
    loss = loss_of(model(words := batch()), words)
    loss.backward()
    optimizer.step()
    sparse.step()
    model.zero_grad()
    return loss


def handed_to_other_libraries(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    loss = plain(model, optimizer)
    weights = [p.detach() for p in model.parameters()]
    exported: Any = dlpack
    given = sum(float(exported.from_dlpack(exported.to_dlpack(w)).double().sum()) for w in weights)
    taken = sum(float(dlpack.from_dlpack(w).double().sum()) for w in weights)
    make_np = pytest.importorskip("torch.utils.tensorboard._convert_np").make_np
    return loss + given + taken + sum(float(make_np(w).sum()) for w in weights)


def larger_in_place(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """A storage that is another one afterwards, and a result that grows in its place."""
    grows, out = torch.ones(1000), torch.empty(0)
    for tensor in (grows, out):
        sides.note(tensor)
    for size in (4000, 9000, 200):
        torch.mul(torch.ones(size), 2.0, out=out)
        plain(model, optimizer)
        grows.resize_(size)
        grows[1000:] = 2.0
        plain(model, optimizer)
    loss = plain(model, optimizer) + out.sum()
    return loss + grows.sum()


@pytest.mark.slow(3)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.filterwarnings("ignore:Sparse (CSR tensor support|invariant checks)")
@pytest.mark.parametrize("step", [in_inference_mode, sparse_tensors, handed_to_other_libraries, larger_in_place])
def test_it_is_there(step: Step) -> None:
    room = pager(12_000)

    assert differ(trained(GPT, None, step, steps=2), trained(GPT, room, step, steps=2)) == []
    assert room.told().moved > 0


def test_gradients_that_are_sparse() -> None:
    assert differ(trained(Sparse, None, sparse_gradients), trained(Sparse, pager(9_000), sparse_gradients)) == []


def test_what_grows_in_place_is_counted_as_large_as_it_is() -> None:
    room = pager(40_000)
    grows = torch.ones(1000)
    sides.note(grows)
    with paged(room):
        grows += 1
        grows.resize_(20_000)
        grows.fill_(2.0)
        assert sum(page.nbytes for page in room.residency._here) == 80_000


def test_a_tensor_whose_parts_torch_hides_is_refused_by_its_class() -> None:
    with paged(pager()), pytest.raises(NotUnderPlan, match="class NestedTensor"):
        torch.nested.nested_tensor([torch.randn(3, WIDE), torch.randn(5, WIDE)], layout=torch.jagged) * 2
