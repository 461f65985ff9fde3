"""An optimizer whose state is split, and what its cell does with it: of one rank, the others being shapes."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from jupyter_gpufit.errors import PartGone
from jupyter_gpufit.fit.several import split
from jupyter_gpufit.fit.several.group import Group, ShapesOnly
from jupyter_gpufit.fit.several.optimizers import states_split
from jupyter_gpufit.fit.several.split import StateInParts


class Momentum(torch.optim.Optimizer):
    """A cell's own kind."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        self.fails, self.forgets = False, False

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for p in self.param_groups[0]["params"]:
            own = self.state[p]
            own["steps"] = own.get("steps", 0) + 1
            own["sum"] = own.get("sum", 0) + p.grad
            p -= 0.1 * own["sum"]
            if self.fails:
                raise ValueError("midway")
            if self.forgets:
                self.state.pop(p)


class Lost:
    """A group of two of which the other one has died."""

    rank, size = 0, 2

    def all_reduce(self, tensor: torch.Tensor) -> None: ...
    def broadcast(self, tensor: torch.Tensor, src: int) -> None: ...
    def offer(self, find: Any) -> None: ...

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.clone(), tensor.clone()]

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        raise PartGone(rank)


class Cell:
    """A large parameter, a small one, and their optimizer."""

    def __init__(self) -> None:
        self.p, self.small = nn.Parameter(torch.ones(64, 128)), nn.Parameter(torch.ones(3))
        self.optimizer = Momentum([self.p, self.small])

    def step(self) -> None:
        for p in (self.p, self.small):
            p.grad = torch.ones_like(p)
        self.optimizer.step()

    @property
    def steps(self) -> list[int]:
        return [self.optimizer.state.get(p, {}).get("steps", 0) for p in (self.p, self.small)]


@contextmanager
def running(group: Group = ShapesOnly(2)) -> Iterator[tuple[Cell, list[str]]]:  # noqa: B008 - a frozen value
    said: list[str] = []
    cell = Cell()
    with states_split(group, said.append):
        cell.step()
        assert isinstance(cell.optimizer.state, StateInParts) and not cell.optimizer.state.of.is_home
        yield cell, said


def test_what_the_cell_takes_away_stays_away() -> None:
    with running() as (cell, _):
        cell.optimizer.state.clear()
        cell.step()
        assert cell.steps == [1, 1]
        del cell.optimizer.state[cell.p]
        cell.step()
        assert cell.steps == [1, 2]
        cell.optimizer.forgets = True
        cell.step()
        assert cell.steps == [0, 0]


def test_a_state_that_is_loaded_last_is_what_the_cell_has() -> None:
    for by_hand in (False, True):
        with running() as (cell, _):
            kept = copy.deepcopy(cell.optimizer.state_dict())
            kept["state"][0]["steps"] = 100
            if by_hand:
                cell.optimizer.state = {cell.p: kept["state"][0]}  # type: ignore[assignment]
            else:
                cell.optimizer.load_state_dict(kept)
        assert cell.optimizer.state[cell.p]["steps"] == 100


def test_a_step_that_fails_leaves_the_cell_its_own_parameters() -> None:
    with running() as (cell, _):
        cell.optimizer.fails = True
        with pytest.raises(ValueError, match="midway"):
            cell.step()
        [found, small] = cell.optimizer.param_groups[0]["params"]
        assert found is cell.p and small is cell.small
        assert cell.steps == [2, 1]
        cell.optimizer.fails = False
        cell.step()
        assert cell.steps == [3, 2]


def test_where_memory_runs_out_before_a_step_nothing_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    with running() as (cell, _):
        with monkeypatch.context() as patched:
            patched.setattr(split, "_view", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                cell.step()
        assert cell.optimizer.param_groups[0]["params"][0] is cell.p
        cell.step()
        assert cell.steps == [2, 2]


def test_what_cannot_be_cut_is_whole_on_each() -> None:
    with running() as (cell, _):
        for odd in ({"n" * 57: torch.ones(64, 128)}, {7: 1}, {"of rows": torch.ones(64)}):
            cell.optimizer.state[cell.p] = {"steps": 1, **odd}
            cell.step()
            state: Any = cell.optimizer.state
            assert cell.steps[0] == 2
            assert all(not part.values for part in state.of.own.values())


def test_a_hook_that_comes_later_sees_whole_parameters() -> None:
    with running() as (cell, _):
        seen: list[Any] = []
        cell.optimizer.register_step_post_hook(lambda own, *_: seen.extend(own.param_groups[0]["params"]))
        cell.step()
        assert seen[0] is cell.p and cell.steps == [2, 2]


def test_who_is_interrupted_needs_no_room_on_the_device() -> None:
    group = ShapesOnly(2)
    cell = Cell()
    with states_split(group, lambda text: None) as leave:
        cell.step()
        leave()
        state = cell.optimizer.state
        assert isinstance(state, StateInParts) and not state.of.is_home
        cell.optimizer.step()
        assert state.of.is_home and cell.steps == [2, 2]
        assert cell.optimizer.state[cell.p]["sum"].shape == cell.p.shape


def test_what_a_lost_rank_did_not_have_alone_is_kept_and_the_rest_is_told() -> None:
    with running(Lost()) as (cell, said):
        with pytest.raises(PartGone, match="on device 2 of the job alone"):
            cell.optimizer.state_dict()
    assert [*cell.optimizer.state] == [cell.small] and cell.steps == [0, 1]
    assert len(said) == 1 and "kept for 1 parameters is gone" in said[0]
