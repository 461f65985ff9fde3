"""What optimizers keep is split over the ranks, and a cell sees nothing of that but in its bytes."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.elementwise import is_elementwise
from jupyter_gpufit.fit.several.split import kept_here
from jupyter_gpufit.worker.ranks.links import RankGone
from jupyter_gpufit.worker.ranks.shared import SharedGroup
from tests.fit.several.ranks import far
from tests.worker.ranks.crew import crew

Trained = tuple[list[float], dict[str, Any], dict[str, torch.Tensor], float]


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 129), nn.Tanh(), nn.Linear(129, 64), nn.Tanh(), nn.Linear(64, 3)).double()


def cell(make: Callable[..., torch.optim.Optimizer]) -> Trained:
    """Trains, with a schedule, clipping, a state that is kept and loaded again, and one that is read in mid-loop."""
    model, losses = net(), []
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
    for step in range(10):
        x = torch.randn(6, 64, dtype=torch.double)
        loss = (model(x) - x[:, :3]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        if step == 4:
            kept = copy.deepcopy(optimizer.state_dict())
        if step == 6:
            optimizer.load_state_dict(kept)
        losses.append(loss.item())
    held = sum(t.nbytes for t in _tensors(optimizer)) / sum(p.nbytes for p in model.parameters())
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    return losses, torch.load(buffer), {n: t.clone() for n, t in model.state_dict().items()}, held


def _tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    """What it has, past what a cell sees."""
    return [t for state in kept_here(optimizer) for t in state.values() if isinstance(t, torch.Tensor) and t.dim()]


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_a_cell_comes_to_the_same_with_a_part_of_the_state_each(size: int) -> None:
    def ranks(group: SharedGroup) -> Any:
        with around(group, split=1):
            found = cell(torch.optim.AdamW)
            group.meet()
        return found

    losses, state, model, held = cell(torch.optim.AdamW)
    assert held == pytest.approx(2, rel=0.03)
    for found in crew(size, ranks):
        assert not isinstance(found, (str, BaseException)), found
        assert 2 + found[3] == pytest.approx(2 + 2 / size, rel=0.03)  # with parameters and gradients: 3 and 2.5 of 4
        assert far(found[0], losses) < 1e-12
        assert far(found[2], model) < 1e-12
        assert far(found[1], state) < 1e-10


@pytest.mark.slow
def test_a_rank_reads_the_others_parts_at_any_time() -> None:
    """As a checkpoint does, of which no other rank knows."""

    def ranks(group: SharedGroup) -> Any:
        with around(group, split=1):
            model = net()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                model(torch.ones(4, 64, dtype=torch.double)).square().mean().backward()
                optimizer.step()
            found = pickle.loads(pickle.dumps(optimizer.state)) if group.rank == 1 else None
            group.meet()
            seen = dict(optimizer.state)
            group.meet()
        if found is None:
            return type(optimizer.state).__name__
        return far([*found.values()], [*seen.values()])

    assert crew(2, ranks) == ["defaultdict", 0.0]


@pytest.mark.slow
def test_who_goes_on_alone_has_all_of_it() -> None:
    """As the first rank does that is interrupted."""

    def train(group: SharedGroup | None, leave: Callable[[], None]) -> list[float]:
        model, losses = net(), []
        optimizer = torch.optim.AdamW(model.parameters())
        for step in range(6):
            if step == 3 and group is not None:
                if group.rank:
                    group.meet()  # until the first one has ended
                leave()
                group.be_alone()
            loss = model(torch.ones(4, 64, dtype=torch.double)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    def ranks(group: SharedGroup) -> Any:
        with around(group, split=1) as leave:
            return train(group, leave)

    found = crew(2, ranks)
    assert far(found[0], train(None, lambda: None)) < 1e-12
    assert isinstance(found[1], RankGone)


class Own(torch.optim.Optimizer):
    """A cell's own kind."""

    def __init__(self, params: Any, **settings: Any) -> None:
        super().__init__(params, {"lr": 0.1, **settings})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for p in group["params"]:
                self.move(group, p, p.grad)

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        p -= group["lr"] * grad


class Centred(Own):
    """It looks at whole parameters."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        p -= group["lr"] * (grad - grad.mean())


class OfAllNorm(Own):
    """It goes over all parameters."""

    def step(self, closure: Any = None) -> Any:
        grads = [p.grad for group in self.param_groups for p in group["params"]]
        torch._foreach_mul_(grads, 1 / max(1.0, torch.nn.utils.get_total_norm(grads).item()))
        return super().step()


class Estimates(Own):
    """As Prodigy does: what all parameters come to is a number in their group, which first counts much later."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        super().move(group, p, grad)
        group["d"] = group.get("d", 0.0) + grad.square().sum().item()


class OfLarge(Own):
    """It takes large matrices in another way, as Muon and Shampoo do."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        p -= group["lr"] * (grad / grad.norm() if p.dim() == 2 and min(p.shape) >= 16 else grad)


class Projects(Own):
    """As AdamP does, where a gradient has no part along the weights."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        flat = p.flatten()
        if torch.cosine_similarity(flat, grad.flatten(), dim=0).abs() < 1e-6:
            grad = grad - flat.mean()
        p -= group["lr"] * grad


class Draws(Own):
    """It rounds as chance has it."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        noise = torch.rand_like(p) - 0.5 if p.dtype is torch.bfloat16 else 0
        p -= group["lr"] * grad + 0.01 * noise


class KeepsOther(Own):
    """What it keeps is no number for each number."""

    def move(self, group: dict[str, Any], p: torch.Tensor, grad: Any) -> None:
        super().move(group, p, grad)
        self.state[p]["steps"] = [1]


class Wraps(Own):
    """Another one steps, for it."""

    def __init__(self, params: Any) -> None:
        params = [*params]
        super().__init__(params)
        self.inner = {"by": [torch.optim.SGD(params, lr=0.1)]}

    def step(self, closure: Any = None) -> Any:
        self.inner["by"][0].step()


class Counts(Own):
    """It changes a list of its own."""

    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.counted = [0]

    def step(self, closure: Any = None) -> Any:
        self.counted[0] += 1
        return super().step()


@pytest.mark.slow(9)
def test_which_optimizers_take_each_number_by_itself() -> None:
    parameters = list(net().parameters())
    before, were = torch.get_rng_state(), [p.detach().bfloat16() for p in parameters]
    counts = Counts(parameters)
    for kind in (torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad):
        assert is_elementwise(kind(parameters, lr=0.1))
        assert is_elementwise(kind(parameters, lr=0.0)), "as a warm-up begins"
    halves = [p.detach().bfloat16().requires_grad_() for p in parameters]
    assert is_elementwise(torch.optim.SGD(halves)) and is_elementwise(torch.optim.AdamW(halves))
    assert is_elementwise(counts) and counts.counted == [0]
    hooked = torch.optim.SGD(parameters)
    hooked.register_step_pre_hook(lambda *_: None)
    others: list[torch.optim.Optimizer] = [torch.optim.LBFGS(parameters), torch.optim.Adafactor(parameters), hooked]
    others += [kind(parameters) for kind in (Centred, OfAllNorm, Estimates, OfLarge, Projects, KeepsOther)]
    for p in halves:
        p.grad = torch.ones_like(p)
    for other in (*others, Draws(halves), Wraps(halves)):
        assert not is_elementwise(other), type(other)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.grad is None for p in parameters)
    assert all(torch.equal(p, was) for p, was in zip(halves, were, strict=True))
