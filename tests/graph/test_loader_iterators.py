"""An iterator of a DataLoader that an earlier cell made gives elsewhere what it would have given here."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    WeightedRandomSampler,
)
from torch.utils.data.dataloader import _SingleProcessDataLoaderIter

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import receive, ship
from jupyter_gpufit.graph.kinds.index_orders import at_the_beginning
from jupyter_gpufit.graph.kinds.loader_iterators import HowMade, MadeAnew, _copy_of, noted
from jupyter_gpufit.snapshot.kinds.loaders import _taken_up, remembered
from jupyter_gpufit.surroundings import midway


class Drawing(Dataset[torch.Tensor]):
    """With noise, as augmented pictures have."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)]) + torch.rand(1)


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> int:
        return index


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(6))


class Shuffled:
    """A sampler by hand, which draws when it is asked for its iterator."""

    def __iter__(self) -> Iterator[int]:
        return iter(random.sample(range(12), 12))

    def __len__(self) -> int:
        return 12


def _endless() -> DataLoader[Any]:
    """As makemore has it: more samples than anybody would list."""
    return DataLoader(Drawing(), 2, sampler=RandomSampler(Drawing(), replacement=True, num_samples=10**10))


class OwnGenerator(Shuffled):
    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __iter__(self) -> Iterator[int]:
        return iter(self.rng.permutation(12).tolist())


class InPlace(Shuffled):
    def __init__(self) -> None:
        self.order = list(range(12))

    def __iter__(self) -> Iterator[int]:
        random.shuffle(self.order)
        yield from self.order


class Epochs(Shuffled):
    epoch = 0

    def __iter__(self) -> Iterator[int]:
        self.epoch += 1
        yield from random.Random(self.epoch).sample(range(12), 12)


class Repeated(Shuffled):
    """As YOLO's loaders have it: one iterator for all epochs."""

    def __init__(self) -> None:
        self.inner = RandomSampler(range(12))

    def __iter__(self) -> Iterator[int]:
        while True:
            yield from self.inner


class Slotted(Shuffled):
    """Whose state nobody can see."""

    def __init__(self) -> None:
        self.chunks = iter(range(12))

    def __iter__(self) -> Iterator[int]:
        yield from self.chunks


MADE: dict[str, Callable[[], DataLoader[Any]]] = {
    "in order": lambda: DataLoader(Drawing(), 3),
    "shuffled": lambda: DataLoader(Drawing(), 3, shuffle=True),
    "with a generator of its own": lambda: DataLoader(Drawing(), 3, shuffle=True, generator=torch.Generator()),
    "weighted": lambda: DataLoader(Drawing(), 3, sampler=WeightedRandomSampler([1.0] * 12, 12)),
    "endless": _endless,
    "by hand": lambda: DataLoader(Drawing(), 3, sampler=Shuffled()),
    "batches by hand": lambda: DataLoader(Drawing(), batch_sampler=BatchSampler(Shuffled(), 4, drop_last=True)),
    "without batches": lambda: DataLoader(Drawing(), batch_size=None, sampler=Shuffled()),
}


def _seed() -> None:
    torch.manual_seed(7)
    random.seed(7)


def _rest(iterator: Any) -> list[Any]:
    _seed()
    return [one.tolist() for one, _ in zip(iterator, range(20), strict=False)]


def _sent(iterator: Any) -> Any:
    shipment = ship(["it"], {"it": iterator})
    namespace: dict[str, Any] = {}
    receive(shipment.graph, shipment.memory, namespace)
    return namespace["it"]


@pytest.fixture(autouse=True)
def as_in_a_notebook() -> None:
    midway.begin_alone(dict)


@pytest.mark.slow(1)
@pytest.mark.parametrize("given", [0, 1, 4])
@pytest.mark.parametrize("name", MADE)
def test_goes_on_where_it_is(name: str, given: int) -> None:
    with noted():
        iterator = iter(MADE[name]())
    torch.rand(3)  # what else a notebook draws
    for _ in range(given):
        next(iterator, None)
    torch.rand(3)

    there = _sent(iterator)
    again = _sent(there)
    _seed()  # most samplers draw with their first batch
    next(there, None)
    thrice = _sent(there)

    expected = _rest(iterator)
    assert _rest(again) == expected
    assert len(expected) == (20 if name == "endless" else max(0, _batches(name) - given))
    assert list(map(_whole, _rest(thrice)))[: len(expected[1:])] == list(map(_whole, expected[1:]))


def _batches(name: str) -> int:
    return len(MADE[name]())


def _whole(batch: Any) -> list[int]:
    """The samples of a batch, without their noise."""
    return [int(one[0]) for one in batch] if isinstance(batch[0], list) else [int(batch[0])]


def test_going_over_what_was_given_draws_nothing_here() -> None:
    with noted():
        iterator = iter(DataLoader[Any](Numbers(), 3, sampler=Shuffled()))
    next(iterator)
    there = _sent(iterator)
    before = random.getstate(), torch.get_rng_state()

    next(there)

    assert random.getstate() == before[0] and torch.get_rng_state().equal(before[1])


@pytest.mark.parametrize("made", [OwnGenerator, InPlace, Epochs, Repeated, Slotted])
def test_a_sampler_that_would_not_give_the_same_again_goes_as_it_stands(made: Callable[[], Any]) -> None:
    with noted():
        iterator = iter(DataLoader[Any](Numbers(), 3, sampler=made()))
    for _ in range(2):
        next(iterator, None)
        torch.rand(1)

    assert _rest(_sent(_sent(iterator))) == _rest(iterator) != []


def test_a_sampler_of_several_that_has_another_epoch_now_goes_as_it_stands() -> None:
    sampler: DistributedSampler[Any] = DistributedSampler(Drawing(), num_replicas=1, rank=0)
    with noted():
        iterator = iter(DataLoader[Any](Numbers(), 3, sampler=sampler))
    next(iterator)
    there = _sent(iterator)
    sampler.set_epoch(1)

    assert _rest(_sent(iterator)) == _rest(iterator) != []
    there.order._sampler.sampler.set_epoch(1)
    with pytest.raises(RuntimeError, match="A sampler was changed"):
        next(there)


def test_a_generator_that_two_loaders_share() -> None:
    shared = torch.Generator()
    sampler = RandomSampler(range(100), replacement=True, num_samples=120, generator=shared)
    with noted():
        iterator = iter(DataLoader[Any](Numbers(), 20, sampler=sampler))
    next(iterator)
    _sent(iterator)
    torch.rand(1, generator=shared)
    next(iterator)

    assert _rest(_sent(iterator)) == _rest(iterator) != []


def test_showing_it_begins_nothing() -> None:
    with noted():
        there = _sent(iter(DataLoader(Drawing(), 2)))

    assert not hasattr(there, "_ipython_canary_method_should_not_exist_") and there.begun is None
    assert there._num_yielded == 0 and there.begun is not None


@pytest.mark.slow(2)
def test_one_that_a_cell_does_not_ask_after_a_resume_goes_on() -> None:
    with noted():
        iterator = iter(DataLoader(Drawing(), 2, num_workers=1))
    there = _sent(iterator)
    with remembered():
        next(there)
    there.begun = _taken_up(there.how.loader, there.begun.position())

    back = _sent(there)

    assert not back.ended and len(_rest(back)) == 5


def test_in_a_trial_run_only_the_sampler_goes_over_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []

    class Counted(Numbers):
        def __getitem__(self, index: int) -> int:
            loaded.append(index)
            return index

    loader = DataLoader[Any](Counted(), 2, sampler=range(12), num_workers=1)
    there = MadeAnew(HowMade(_copy_of(loader), at_the_beginning(loader)), given=3, ended=False, order=None)
    vars(there.how.loader)["num_workers"] = 0
    monkeypatch.setattr(DataLoader, "_get_iterator", lambda of: _SingleProcessDataLoaderIter(of))

    assert next(there).tolist() == [6, 7] and loaded == [6, 7]


@pytest.mark.slow(2)
@pytest.mark.parametrize("given", [0, 2])
def test_of_workers(given: int) -> None:
    with noted():
        iterator = iter(DataLoader(Drawing(), 2, shuffle=True, num_workers=2))
    for _ in range(given):
        next(iterator)

    there = _sent(iterator)

    assert _rest(there) == _rest(iterator) and _rest(there) == []
    assert _rest(_sent(there)) == []


def test_of_a_stream_that_has_not_begun() -> None:
    with noted():
        iterator = iter(DataLoader(Stream(), 2))

    assert _rest(_sent(iterator)) == [[0, 1], [2, 3], [4, 5]]
    next(iterator)
    assert _rest(_sent(iterator)) == [[2, 3], [4, 5]]


def test_what_was_not_noted_goes_as_it_stands() -> None:
    torch.manual_seed(5)
    iterator = iter(DataLoader(list(range(12)), 3, shuffle=True))  # type: ignore[arg-type]
    next(iterator)

    there = _sent(_sent(iterator))

    assert _rest(there) == _rest(iterator) != []


@pytest.mark.slow(3)
def test_of_a_training_cell_with_workers_goes_on_in_the_notebook() -> None:
    torch.manual_seed(5)
    with remembered():
        iterator = iter(DataLoader(Drawing(), 3, shuffle=True, num_workers=1))
        next(iterator)

    there = _sent(iterator)

    assert _rest(there) == _rest(iterator) != []


def test_workers_that_stay_are_refused() -> None:
    with noted():
        staying = iter(DataLoader(Drawing(), 3, num_workers=1, persistent_workers=True))

    with pytest.raises(CannotTravel, match="Call iter\\(loader\\) in the cell that uses it"):
        _sent(staying)
    staying._shutdown_workers()  # type: ignore[attr-defined]  # the error holds it


@pytest.mark.slow(2)
def test_where_standing_workers_stay_the_next_epoch_draws_what_it_would_have_drawn() -> None:
    loader = DataLoader(Numbers(), 2, sampler=RandomSampler(range(12)), num_workers=1, persistent_workers=True)
    torch.manual_seed(3)
    list(loader)
    there = _sent(loader)
    state = torch.get_rng_state()
    wanted = [list(loader), list(loader), torch.rand(1)]
    assert vars(_sent(there)._iterator) == {"_base_seed": vars(loader._iterator)["_base_seed"]}

    torch.set_rng_state(state)

    assert str([list(there), list(there), torch.rand(1)]) == str(wanted)
