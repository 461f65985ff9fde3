"""A large matrix comes to the same where no device has it whole, whatever the cell does with it or its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from jupyter_gpufit.fit.several import gradients
from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.shard import Shard
from jupyter_gpufit.fit.several.shards import Shards
from jupyter_gpufit.fit.sharing import PARAMETERS
from jupyter_gpufit.worker.ranks.shared import SharedGroup
from tests.fit.several.ranks import far
from tests.worker.ranks.crew import crew

WORDS, LARGE = 301, 4096


class Reader(nn.Module):
    """Its matrices are large, and one is a word's vectors and the last layer where it is tied."""

    again: dict[str, Any] | None = None  # how a part of it is computed again, if it is

    def __init__(self, *, tied: bool = False) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 32, padding_idx=0)
        self.wide, self.narrow = nn.Linear(32, 256), nn.Linear(256, 32, bias=False)
        self.head = nn.Linear(32, WORDS)
        if tied:
            self.head.weight = self.words.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.words(x)
        h *= 1.5
        more = self.inner(h) if self.again is None else checkpoint(self.inner, h, **self.again)
        out: torch.Tensor = self.head(h + more)
        return out

    def inner(self, h: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.narrow(functional.gelu(self.wide(h)))
        return out


def loss_of(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(model(x).flatten(0, 1), x.flatten())


def simply(model: nn.Module, x: torch.Tensor) -> None:
    loss_of(model, x).backward()


def clips(model: nn.Module, x: torch.Tensor) -> None:
    """And makes zeros of the gradients, instead of dropping them."""
    for p in model.parameters():
        if p.grad is not None:
            p.grad.zero_()
    simply(model, x)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    nn.utils.clip_grad_norm_(model.parameters(), 0.1, norm_type=float("inf"))


def twice(model: nn.Module, x: torch.Tensor) -> None:
    simply(model, x)
    (loss_of(model, x) + model(x.flip(0)).square().mean()).backward()


def hands_out(model: nn.Module, x: torch.Tensor) -> None:
    found = torch.autograd.grad(loss_of(model, x), list(model.parameters()))
    for p, grad in zip(model.parameters(), found, strict=True):
        p.grad = grad


def gradient_of_gradient(model: nn.Module, x: torch.Tensor) -> None:
    loss = loss_of(model, x)
    found = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    (loss + sum(grad.square().sum() for grad in found)).backward()


def regularised(model: nn.Module, x: torch.Tensor) -> None:
    (loss_of(model, x) + 0.01 * sum(p.square().sum() for p in model.parameters())).backward()


def hooked(model: nn.Module, x: torch.Tensor) -> None:
    hooks = [p.register_hook(lambda grad: 2 * grad) for p in model.parameters()]
    simply(model, x)
    for hook in hooks:
        hook.remove()


def computes_again(model: nn.Module, x: torch.Tensor) -> None:
    """Of all samples, and of one, which no device has a part of."""
    assert isinstance(model, Reader)
    for model.again in ({"use_reentrant": False}, {"use_reentrant": True}):
        simply(model, x)
        simply(model, x[:1])
    model.again = None


def saves_through_hooks(model: nn.Module, x: torch.Tensor) -> None:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.view_as(t), lambda t: t):
        simply(model, x)


def over_what_is_left(model: nn.Module, x: torch.Tensor) -> None:
    """As a loop over losses does."""
    losses = [loss_of(model, x), model(x).square().mean()]
    for loss in losses:
        for p in model.parameters():
            p.grad = None
        loss.backward(retain_graph=True)


COMES_TO_GRADIENTS = (
    simply,
    clips,
    twice,
    hands_out,
    gradient_of_gradient,
    regularised,
    hooked,
    computes_again,
    saves_through_hooks,
    over_what_is_left,
)
WAYS = {one.__name__: one for one in COMES_TO_GRADIENTS}


def train(way: str, *, tied: bool, frees: bool = True) -> list[Any]:
    torch.manual_seed(0)
    model, came_to, earlier = Reader(tied=tied).double(), list[Any](), None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=frees)
        x = torch.randint(0, WORDS, (5, 7))
        WAYS[way](model, x)
        optimizer.step()
        with torch.no_grad():
            came_to.append(model(x[:3]))
        came_to += [] if earlier is None else [earlier.sum()]
        earlier = model.head.weight.grad if way == "twice" else None  # it stays what it was
    return came_to + [p.detach().clone() for p in model.parameters()]


def on_ranks(size: int, run: Callable[[], Any]) -> list[Any]:
    def ranks(group: SharedGroup) -> Any:
        with around(group, split=PARAMETERS):
            found = run()
            group.meet()
        return found

    return crew(size, ranks)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradients, "LARGE", LARGE)


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size,tied", [(2, False), (3, True)])
def test_a_cell_comes_to_the_same(way: str, size: int, tied: bool) -> None:
    def run() -> list[Any]:
        return train(way, tied=tied, frees=way != "clips")

    alone = run()
    for found in on_ranks(size, run):
        assert isinstance(found, list), found
        assert far(found, alone) < 1e-12


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("way", ["simply", "clips"])
def test_no_device_has_one_whole(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered: list[int] = []
    real = Shards._gather

    def gather(self: Shards, shard: Shard) -> None:
        gathered.append(shard.numel)
        real(self, shard)

    monkeypatch.setattr(Shards, "_gather", gather)

    def run() -> Any:
        torch.manual_seed(0)
        model = Reader()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            WAYS[way](model, torch.randint(0, WORDS, (5, 7)))
            optimizer.step()
            model(torch.randint(0, WORDS, (5, 7)))
        found = [*gathered]
        before = model.head.weight.sum().item()
        model.head.weight.detach().add_(1)
        return found, model.head.weight.sum().item() - before, gathered[len(found) :]

    for found in on_ranks(2, run):
        assert isinstance(found, tuple), found
        trained, added, looked_at = found
        assert trained == [] and added == pytest.approx(32 * WORDS, rel=1e-4)
        assert looked_at == [32 * WORDS]  # to add to it; a sum is one of the parts'


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_half_precision_computes_in_half_and_sums_in_whole() -> None:
    def run() -> Any:
        torch.manual_seed(0)
        layer, x = nn.Linear(64, 128), torch.randn(6, 64, requires_grad=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            made = layer(x)
        made.float().square().mean().backward()
        assert made.dtype == torch.bfloat16 and layer.weight.grad is not None and x.grad is not None
        return made.float(), layer.weight.grad.clone(), x.grad

    alone = run()
    for found in on_ranks(2, run):
        assert isinstance(found, tuple), found
        assert far(found, alone) < 0.01


@pytest.mark.slow
@pytest.mark.usefixtures("small")
def test_what_torch_refuses_is_refused_and_nothing_else_is_changed() -> None:
    def run() -> Any:
        torch.manual_seed(0)
        model = Reader().double()
        for given in (torch.tensor([[1, WORDS]] * 4), torch.tensor([[-1, 2]] * 4)):
            with pytest.raises(IndexError):
                model(given)
        simply(model, torch.randint(0, WORDS, (4, 3)))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            functional.linear(torch.randn(2, 16).double(), model.head.weight)
        with torch.no_grad():
            other = torch.ones(WORDS, 32, dtype=torch.double)
            other.mul_(model.head.weight[0, 0])
            norm = torch.zeros((), dtype=torch.double)
            torch.linalg.vector_norm(model.head.weight, out=norm)
            found = [other, norm, torch.func.vmap(model.wide)(model.words.weight[:4].clone())]
        return [*found, *(p.detach().clone() for p in model.parameters())]

    alone = run()
    for found in on_ranks(2, run):
        assert isinstance(found, list), found
        assert far(found, alone) < 1e-12
