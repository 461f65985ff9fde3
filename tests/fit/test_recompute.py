"""What is computed again comes to the same bits, and nothing of it stays on a model."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import nn

from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.units import looks_of

from .models import GPT, MODELS, OPTIMIZERS, Encoder, Pictures, batch
from .programs import PROGRAMS, gradient_penalty
from .runs import Step, differ, trained


def every_path(make: Callable[[], nn.Module]) -> list[str]:
    return [path for path, _ in make().named_modules() if path]


def blocks(make: Callable[[], nn.Module]) -> list[str]:
    """The modules in the middle of the tree: those of ours that hold others."""
    return [path for path, one in make().named_modules() if path and next(one.children(), None) is not None]


@pytest.mark.slow(1)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_comes_to_the_same_bits(name: str) -> None:
    make = MODELS[name]
    as_it_is = trained(make, None)

    assert differ(as_it_is, trained(make, blocks(make) or every_path(make))) == []
    assert differ(as_it_is, trained(make, every_path(make))) == []


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_under_every_optimizer(optimizer: str) -> None:
    assert differ(trained(GPT, None, optimizer=optimizer), trained(GPT, blocks(GPT), optimizer=optimizer)) == []


def test_a_control_in_which_the_bits_differ() -> None:
    assert differ(trained(GPT, None), trained(GPT, None, steps=2))


@pytest.mark.slow(1)
@pytest.mark.parametrize("make", [Encoder, Pictures])
@pytest.mark.parametrize("step", PROGRAMS)
def test_awkward_programs(step: Step, make: Callable[[], nn.Module]) -> None:
    if make is Encoder and step is gradient_penalty:
        pytest.skip("torch's own attention has no second derivative")

    assert differ(trained(make, None, step), trained(make, blocks(make), step)) == []


def test_statistics_stay_as_one_run_left_them_also_where_they_overflow() -> None:
    def overflows(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        said = model(torch.full((4, 8), torch.finfo(torch.float32).max))
        loss: torch.Tensor = said.square().mean()
        loss.backward()
        return loss

    left = trained(Pictures, blocks(Pictures), overflows, steps=1)

    assert differ(trained(Pictures, None, overflows, steps=1), left) == []
    assert not all(left[name].isfinite().all() for name in left if "running_var" in name), "else it shows nothing"
    assert left["blocks.0.b1.num_batches_tracked"] == 1


def test_nothing_stays_on_a_model() -> None:
    model = GPT()
    before = {name: sorted(vars(one)) for name, one in model.named_modules()}
    bare = list(model.state_dict())
    real = nn.Module._call_impl

    with recompute.around({looks_of(model): blocks(GPT)}):
        model(batch()).sum().backward()
        kept = pickle.dumps(model)
        inside = copy.deepcopy(model)

    assert {name: sorted(vars(one)) for name, one in model.named_modules()} == before
    assert {name: sorted(vars(one)) for name, one in inside.named_modules()} == before
    assert b"jupyter_gpufit" not in kept
    assert list(pickle.loads(kept).state_dict()) == bare
    assert nn.Module._call_impl is real


def test_less_is_kept_and_what_is_chosen_runs_twice() -> None:
    def saved(paths: list[str]) -> tuple[int, int]:
        model: Any = GPT()
        ran = kept = 0

        counted = model.blocks[1].mlp[0]

        def count(x: torch.Tensor) -> Any:
            nonlocal ran
            ran += 1
            return nn.Linear.forward(counted, x)

        def pack(t: torch.Tensor) -> torch.Tensor:
            nonlocal kept
            kept += t.nbytes
            return t

        counted.forward = count
        with recompute.around({looks_of(model): paths}):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                said = model(batch())
            said.sum().backward()
        return kept, ran

    (all_kept, once), (kept, twice) = saved([]), saved(["blocks.0", "blocks.1", "blocks.2"])

    assert kept < all_kept / 3 and (once, twice) == (1, 2)


def test_a_module_that_is_gone_is_passed_over() -> None:
    model = GPT()
    looks = looks_of(model)
    del model.blocks[2]

    with recompute.around({looks: ("blocks.1", "blocks.2", "nowhere")}):
        model(batch()).sum().backward()

    assert model.words.weight.grad is not None


# Random trees of modules, and random parts of them

WIDTH = 6


class Sum(nn.Module):
    """Runs its parts beside each other."""

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts, self.scale = nn.ModuleList(parts), nn.Parameter(torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.stack([part(x) for part in self.parts]).sum(0) * self.scale


class Twice(nn.Module):
    """The same weights, used again."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.part = self.same = part

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.same(torch.tanh(self.part(x)))  # type: ignore[no-any-return]


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.rnn(x[:, None])[0][:, 0]  # type: ignore[no-any-return]


LEAVES: list[Callable[[], nn.Module]] = [
    lambda: nn.Linear(WIDTH, WIDTH),
    lambda: nn.BatchNorm1d(WIDTH),
    lambda: nn.Dropout(0.3),
    nn.GELU,
    lambda: nn.LayerNorm(WIDTH),
    Steps,
]
Make = Callable[[], nn.Module]


def together(parts: some.SearchStrategy[Make]) -> some.SearchStrategy[Make]:
    several = some.lists(parts, min_size=1, max_size=3)
    return some.one_of(
        several.map(lambda found: lambda: nn.Sequential(*(make() for make in found))),
        several.map(lambda found: lambda: Sum(*(make() for make in found))),
        parts.map(lambda make: lambda: Twice(make())),
    )


trees = some.recursive(some.sampled_from(LEAVES), together, max_leaves=8)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(trees, some.data())
def test_random_trees_under_random_plans(make: Make, data: some.DataObject) -> None:
    def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = model(torch.randn(4, WIDTH)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    whole: Make = lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), make(), nn.Linear(WIDTH, 1))  # noqa: E731
    paths = data.draw(some.lists(some.sampled_from(every_path(whole)), unique=True))

    assert differ(trained(whole, None, step, steps=2), trained(whole, paths, step, steps=2)) == []
