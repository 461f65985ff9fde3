"""Two models that learn from each other, as a GAN's do, under plans that know both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jupyter_gpufit.devices import sides
from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.rungs.pager import Pager, paged
from jupyter_gpufit.fit.units import looks_of

from .guard import Guard
from .runs import _flat, differ

WIDE = 24


class Generator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.grow = nn.Sequential(nn.Linear(8, WIDE), nn.BatchNorm1d(WIDE), nn.ReLU())
        self.draw = nn.Sequential(nn.Linear(WIDE, WIDE), nn.Tanh())

    def forward(self, noise: torch.Tensor) -> Any:
        return self.draw(self.grow(noise))


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.look = nn.Sequential(nn.Linear(WIDE, WIDE), nn.LeakyReLU(0.2), nn.Dropout(0.3))
        self.judge = nn.Linear(WIDE, 1)

    def forward(self, picture: torch.Tensor) -> Any:
        return self.judge(self.look(picture))


def trained(plan: Sequence[str] | None, paging: Pager | None = None) -> Mapping[str, Any]:
    """All that is left of both, and of their optimizers."""
    torch.manual_seed(0)
    generator, critic = Generator(), Critic()
    for model in (generator, critic):
        for tensor in [*model.parameters(), *model.buffers()]:
            sides.note(tensor)  # as on a slot
    of_generator = torch.optim.Adam(generator.parameters(), 1e-2)
    of_critic = torch.optim.RMSprop(critic.parameters(), 1e-2)
    with ExitStack() as under:
        if paging is not None:
            guard = under.enter_context(Guard())
            under.enter_context(paged(paging))
        if plan is not None:
            under.enter_context(recompute.around({looks_of(one): _blocks(one, plan) for one in (generator, critic)}))
        losses = [_round(generator, critic, of_generator, of_critic) for _ in range(3)]
        found = {
            f"{whose} {name}": value.detach().clone()
            for whose, model in (("generator", generator), ("critic", critic))
            for name, value in [*model.named_parameters(), *model.named_buffers()]
        }
        for whose, optimizer in (("generator's", of_generator), ("critic's", of_critic)):
            for name, value in _flat(optimizer.state_dict()["state"]):
                found[f"{whose} {name}"] = value.clone() if isinstance(value, torch.Tensor) else value
        found = {name: torch.tensor(v.tolist()) if isinstance(v, torch.Tensor) else v for name, v in found.items()}
    if paging is not None:
        assert guard.flagged == [] and guard.seen > 0
    return {**found, "losses": losses, "random": torch.get_rng_state()}


def _round(
    generator: nn.Module, critic: nn.Module, of_generator: torch.optim.Optimizer, of_critic: torch.optim.Optimizer
) -> tuple[float, float]:
    """The critic looks at what is drawn once without and once with the generator's graph; one step each."""
    real, drawn = torch.randn(16, WIDE), generator(torch.randn(16, 8))
    wrong = F.softplus(-critic(real)).mean() + F.softplus(critic(drawn.detach())).mean()
    of_critic.zero_grad()
    wrong.backward()
    of_critic.step()
    fooled = F.softplus(-critic(drawn)).mean()
    of_generator.zero_grad()
    fooled.backward()
    of_generator.step()
    return wrong.item(), fooled.item()


def _blocks(model: nn.Module, plan: Sequence[str]) -> list[str]:
    return [path for path, _ in model.named_modules() if path in plan]


@pytest.mark.parametrize("plan", [["grow", "draw"], ["look"], ["grow", "draw", "look", "judge"]])
def test_both_come_to_the_same_bits_recomputed(plan: list[str]) -> None:
    assert differ(trained(None), trained(plan)) == []


@pytest.mark.parametrize("states_only", [False, True])
def test_both_come_to_the_same_bits_with_what_they_have_on_the_host(states_only: bool) -> None:
    paging = Pager(4_000, least=1, states_only=states_only)

    assert differ(trained(None), trained(None, paging)) == []
    assert paging.told().moved > 0


def test_both_come_to_the_same_bits_under_both() -> None:
    assert differ(trained(None), trained(["grow", "look"], Pager(6_000, least=1, states_only=False))) == []
