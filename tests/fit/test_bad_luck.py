"""What a training does that no plan could foresee: the bits are those of the plain training all the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import nn

from jupyter_gpufit.devices import sides
from jupyter_gpufit.fit.rungs import link
from jupyter_gpufit.fit.rungs.pager import Pager, paged, watchers

from .guard import Guard
from .ledger import Ledger
from .models import GPT, Dense, Pictures, batch, loss_of
from .runs import Step, differ, plain
from .test_pager import pager, trained


def replaces_a_parameter(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    loss = plain(model, optimizer)
    assert isinstance(model, GPT)
    new = nn.Parameter(model.places.detach() * 0.5)
    sides.note(new)
    optimizer.state.pop(model.places)
    optimizer.param_groups[0]["params"] = [new if p is model.places else p for p in model.parameters()]
    model.places = new
    return loss + plain(model, optimizer)


def adds_and_drops_modules(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    assert isinstance(model, GPT)
    loss = plain(model, optimizer)
    gone = model.blocks[-1]
    del model.blocks[-1]
    loss = loss + plain(model, optimizer)
    model.blocks.append(gone)
    return loss + plain(model, optimizer)


def keeps_what_it_saw(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Hooks of the cell's own, with references to activations and gradients beyond the step."""
    seen: list[torch.Tensor] = []

    def halve(grad: torch.Tensor) -> torch.Tensor:
        seen.append(grad)
        return grad * 0.5

    hooks = [model.register_forward_hook(lambda module, given, out: seen.append(out.detach()))]
    hooks += [p.register_hook(halve) for p in model.parameters()]
    loss = plain(model, optimizer)
    for hook in hooks:
        hook.remove()
    return loss + sum(one.double().sum() for one in seen).float()  # type: ignore[union-attr]


def other_lengths(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    """Many times what came before."""
    loss = plain(model, optimizer)
    for times in (6, 1, 9):
        words = torch.cat([batch() for _ in range(times)])
        loss = loss_of(model(words), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss


def fails_in_a_backward(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    def fail(grad: torch.Tensor) -> None:
        raise ValueError

    words = batch()
    hook = next(model.parameters()).register_hook(fail)
    with pytest.raises(ValueError):
        loss_of(model(words), words).backward()
    hook.remove()
    return plain(model, optimizer)


def two_optimizers(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    other = torch.optim.SGD(list(model.parameters())[:2], 1e-2)
    loss = plain(model, optimizer)
    other.step()
    return loss + plain(model, optimizer)


LUCK: list[Step] = [
    replaces_a_parameter,
    adds_and_drops_modules,
    keeps_what_it_saw,
    other_lengths,
    fails_in_a_backward,
    two_optimizers,
]


@pytest.mark.slow(1)
@pytest.mark.parametrize("step", LUCK)
def test_what_nobody_foresaw(step: Step) -> None:
    assert differ(trained(GPT, None, step, steps=2), trained(GPT, pager(), step, steps=2)) == []


@pytest.mark.slow
def test_a_link_that_stalls_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = trained(Dense, None, steps=2)
    monkeypatch.setattr(link, "simulated", 2e5)
    stalled = pager(2_000)

    assert differ(usual, trained(Dense, stalled, steps=2)) == []
    assert stalled.told().waited > 0.01


# Random trees -----------------------------------------------------------------------------------------------------

WIDE = 24


class Tree(nn.Module):
    """A module made by chance: of layers, norms, smaller trees, a parameter of its own, and tied weights."""

    def __init__(self, chance: random.Random, depth: int, shared: list[nn.Linear]) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.randn(WIDE)) if chance.random() < 0.4 else None
        self.recurrent = nn.GRU(WIDE, WIDE, batch_first=True) if chance.random() < 0.2 else None
        self.children_of_it = nn.ModuleList(self._child(chance, depth, shared) for _ in range(chance.randint(1, 3)))

    def _child(self, chance: random.Random, depth: int, shared: list[nn.Linear]) -> nn.Module:
        if depth and chance.random() < 0.5:
            return Tree(chance, depth - 1, shared)
        if shared and chance.random() < 0.3:
            return chance.choice(shared)
        if chance.random() < 0.2:
            return nn.BatchNorm1d(WIDE)
        shared.append(nn.Linear(WIDE, WIDE))
        return shared[-1]

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # (B, C)
        for child in self.children_of_it:
            x = x + torch.tanh(child(x))
        if self.recurrent is not None:
            x = x + self.recurrent(x[:, None])[0][:, 0]
        return x if self.own is None else x * self.own


def of(seed: int, paging: Pager | None) -> dict[str, Any]:
    chance = random.Random(seed)
    torch.manual_seed(seed)
    model = Tree(chance, 2, [])
    for tensor in [*model.parameters(), *model.buffers()]:
        sides.note(tensor)
    make: Callable[[Any], torch.optim.Optimizer] = chance.choice([torch.optim.AdamW, torch.optim.Adagrad])
    optimizer = make(model.parameters())

    def train() -> dict[str, Any]:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, WIDE)).square().mean().backward()
            optimizer.step()
        found = {name: value.tolist() for name, value in model.state_dict().items()}
        return {name: torch.tensor(value) for name, value in found.items()}

    if paging is None:
        return train()
    with paged(paging):
        return train()


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(some.integers(0, 10**6), some.integers(1, 40), some.booleans())
def test_random_trees_by_random_plans(seed: int, room: int, states_only: bool) -> None:
    paging = Pager(room * 1000, states_only=states_only, least=1)

    assert differ(of(seed, None), of(seed, paging)) == []


# A long run --------------------------------------------------------------------------------------------------------


def lengths(steps: int) -> dict[str, tuple[int, int]]:
    """Batches of random length: nothing on the device or the host grows beyond what the first long one took, in bytes.

    What a plan claims to need is what a trial run counts, and that counts as the ledger does (`bench/fit.py`).
    """
    chance, paging = random.Random(0), Pager(40_000, states_only=False, least=1)
    torch.manual_seed(0)
    model = Pictures()
    for tensor in [*model.parameters(), *model.buffers()]:
        sides.note(tensor)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    over, taken, peaks = [], [], []
    with Ledger() as ledger, Guard() as guard, paged(paging):
        watchers.append(ledger.follow)
        try:
            for step in range(steps):
                words = torch.cat([batch() for _ in range(6 if step == 2 else chance.randint(1, 6))])
                optimizer.zero_grad()
                loss_of(model(words), words).backward()
                optimizer.step()
                found = paging.residency
                over.append(found._now + found._leaving)
                taken.append(paging.told().taken)
                peaks.append(ledger.peak)
                assert len(found._named) < 3000 and len(paging._pages) < 1500, "nothing is kept of what is gone"
        finally:
            watchers.remove(ledger.follow)
    assert max(over) <= 40_000 and guard.flagged == []
    assert peaks[-1] <= 1.05 * peaks[2], "the third batch is as long as any"
    assert taken[-1] <= 1.6 * taken[len(taken) // 4], "freed memory of the host is used again"
    return {"first": (peaks[2], taken[2]), "last": (peaks[-1], taken[-1])}


@pytest.mark.slow(10)
def test_fifty_steps_with_batches_of_random_length() -> None:
    lengths(50)


@pytest.mark.soak
def test_a_thousand_steps_with_batches_of_random_length() -> None:
    lengths(1000)
