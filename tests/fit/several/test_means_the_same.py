"""A cell on several devices prints, learns and draws what it does on one, whatever is hard about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from jupyter_gpufit.errors import CannotPart, RanksDiffer
from jupyter_gpufit.fit.several.calls import around
from jupyter_gpufit.fit.several.group import Alone, ShapesOnly
from tests.fit.models import GPT, MODELS
from tests.libraries import need

from .cells import CELLS, programs, scaled, steps_of
from .idioms import IDIOMS
from .ranks import far, run_on

NEAR = 1e-5
Cell = Callable[[], dict[str, Any]]


def all_of(cells: dict[str, Cell], dtype: torch.dtype) -> Callable[[], dict[str, Any]]:
    """One after the other, in the processes of one job."""

    def run() -> dict[str, Any]:
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            return {name: cell() for name, cell in cells.items()}
        finally:
            torch.set_default_dtype(before)

    return run


def same(cells: dict[str, Cell], size: int, near: float = NEAR, dtype: torch.dtype = torch.float32) -> None:
    one = run_on(1, all_of(cells, dtype))[0]
    many = run_on(size, all_of(cells, dtype))

    apart = {name: far(many[0][name], one[name]) for name in cells}
    assert max(apart.values()) < near, apart
    assert far(many[1:], many[:1] * (size - 1)) == 0, "all ranks come to the same bits"


@pytest.mark.slow
def test_models_of_all_kinds_learn_the_same() -> None:
    same({name: steps_of(make) for name, make in MODELS.items()}, 2)


@pytest.mark.slow(10)
def test_trainings_of_all_kinds_come_to_the_same() -> None:
    same(CELLS, 4)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_models_as_people_write_them_come_to_the_same(size: int) -> None:
    same(IDIOMS, size, 1e-12, torch.float64)


@pytest.mark.slow
def test_it_is_rounding_alone_that_differs() -> None:
    """Where a number is longer, they are as much nearer: whatever is hidden in a rounding would show here."""
    same(
        {**CELLS, **{name: steps_of(MODELS[name]) for name in ("GPT", "encoder with dropout")}}, 2, 1e-12, torch.float64
    )


@pytest.mark.slow(12)
def test_programs_of_one_device_come_to_the_same() -> None:
    same(dict(programs()), 2)


@pytest.mark.slow
def test_half_precision_differs_by_its_rounding() -> None:
    same({"scaled": scaled}, 2, 2e-3)


@pytest.mark.slow
def test_a_transformer_of_a_library_computes_its_own_loss() -> None:
    need("transformers")
    transformers: Any = import_module("transformers")
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 16, "bos_token_id": 0, "eos_token_id": 0}

    def cell() -> dict[str, Any]:
        torch.manual_seed(0)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=50, **sizes)).train()
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.05), []
        for long in (12, 9, 12):
            words = torch.randint(0, 50, (6, long))
            labels = words.where(torch.rand(6, long) > 0.5, -100)
            loss = model(input_ids=words, labels=labels).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses, **model.state_dict()}

    same({"GPT-2": cell}, 2)


def test_one_device_is_left_as_it_is() -> None:
    before = nn.Module._call_impl

    with around(Alone()):
        assert nn.Module._call_impl is before


@pytest.fixture
def linear() -> Iterator[nn.Linear]:
    yield nn.Linear(3, 2)


def test_a_rank_computes_its_own_samples_alone(linear: nn.Linear) -> None:
    seen: list[torch.Size] = []
    linear.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))

    with around(ShapesOnly(4)):
        for _ in range(2):
            assert linear(torch.ones(10, 3)).shape == (10, 2)

    tried = [(8, 3), (2, 3)]  # two samples of each rank, together and its own, to see what must come out
    assert seen == [*tried, (3, 3), (3, 3)]


class Moves(nn.Module):
    """Of samples it makes others, in a way that no function alone gives away."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mix(x).sort(0).values  # type: ignore[no-any-return]


class Divides(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.mix(x).sum() / len(x)  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "why"),
    [(Moves, "differs by"), (Divides, "differs by 100")],
)
def test_a_model_that_mixes_samples_is_refused_by_its_name(make: type[nn.Module], why: str) -> None:
    def cell() -> None:
        torch.manual_seed(0)
        model = make()
        for _ in range(3):
            model(torch.randn(4, 3))

    with pytest.raises(CannotPart, match=f"{make.__name__} cannot be trained on several devices.*{why}"):
        run_on(2, cell)


@pytest.mark.slow
def test_ranks_that_differ_are_told_with_the_first_name() -> None:
    def own_numbers() -> None:
        torch.manual_seed(0)
        model = GPT()
        torch.set_rng_state(torch.get_rng_state())
        words = torch.randint(0, 64, (4, 8), generator=torch.Generator().manual_seed(torch.distributed.get_rank()))
        model(words)

    with pytest.raises(RanksDiffer, match="words, given to GPT"):
        run_on(2, own_numbers)


@pytest.mark.slow
def test_gradients_that_differ_are_told_with_the_parameters_name() -> None:
    def own_gradients() -> None:
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        F.mse_loss(model(torch.ones(4, 3)), torch.ones(4, 2)).backward()
        assert model.bias.grad is not None
        model.bias.grad += torch.distributed.get_rank()
        optimizer.step()

    with pytest.raises(RanksDiffer, match="the gradient of bias"):
        run_on(2, own_gradients)


@pytest.mark.slow
def test_the_cells_own_errors_stay_its_own() -> None:
    def cell() -> None:
        nn.Linear(3, 2)(torch.ones(4, 5))

    with pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        run_on(2, cell)
