"""The search for the largest value, where the data ends before the memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.search import LargestSearch
from jupyter_gpufit.estimate.asking.session import EstimateWish, _Asking
from jupyter_gpufit.estimate.asking.target import choose_target
from jupyter_gpufit.estimate.asking.told import Told
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.estimate.showing.show import one_line
from jupyter_gpufit.fit.plan import Climbed, RungVerdict
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import MiB

SAMPLES = 2000


class FakeTrials:
    """Trial runs of a cell with so much data."""

    def __init__(self, batch_of: Callable[[int], int], by: dict[str, float] | None = None) -> None:
        self.batch_of = batch_of
        self.by = by or {}  # what a rung makes of a batch's memory
        self.tried: list[int] = []
        self.ways: list[str] = []

    async def ask(self, ask: Ask) -> TraceAnswer:
        self.tried.append(ask.values["batch"])
        self.ways.append(ask.fit if ask.most else "")
        batch = self.batch_of(self.tried[-1])
        need = (600 + batch) * MiB
        estimate = Estimate(card="T4", card_total=15_360 * MiB, need=need, low=need, high=need, steps=min(batch, 2))
        return TraceAnswer(estimate=estimate, batch=batch, climbed=self._climbed(ask, batch) if ask.most else None)

    def _climbed(self, ask: Ask, batch: int) -> Climbed:
        assert ask.limits is not None
        if ask.fit not in self.by:
            return Climbed((RungVerdict(ask.fit, ask.fit, None, 1.0, True, False, "it can do nothing"),))
        need = round((600 + self.by[ask.fit] * batch) * MiB)
        fits = need <= ask.limits.usable
        return Climbed((RungVerdict(ask.fit, f"by {ask.fit}", need, 1.3, True, fits, "" if fits else "needs more"),))


def _search(trials: FakeTrials, home: Path, fit: str = "no") -> list[Told]:
    settings = Settings(data=str(home), lab=str(home))
    told: list[Told] = []
    asking = _Asking(trials, choose_target(settings, "T4"), EstimateWish(max_batch="batch"), settings)  # type: ignore[arg-type]
    search = LargestSearch("batch", asking.target.room, asking.ask, told.append)
    anyio.run(search.run, fit)
    return told


def test_a_batch_of_all_data_is_the_largest(tmp_path: Path) -> None:
    trials = FakeTrials(lambda batch: min(batch, SAMPLES))

    *_, last = _search(trials, tmp_path)

    assert last.values == (("batch", SAMPLES),) and one_line(last).startswith(
        "All of the data fits at once: batch = 2,000"
    )
    assert [value for value in trials.tried if value > SAMPLES] == trials.tried[-1:]


def test_a_batch_that_the_data_does_not_fill_is_too_large(tmp_path: Path) -> None:
    """With drop_last there is none then, and the cell trains nothing."""
    *_, last = _search(FakeTrials(lambda batch: batch if batch <= SAMPLES else 0), tmp_path)

    assert last.largest and SAMPLES * 0.97 <= last.values[0][1] <= SAMPLES


@pytest.mark.parametrize("batches", [1, 2])
def test_without_an_end_of_the_data_the_memory_says(batches: int, tmp_path: Path) -> None:
    """Also where two loaders give one each, as for a GAN."""
    *_, last = _search(FakeTrials(lambda batch: batches * batch), tmp_path)

    room = choose_target(Settings(data=str(tmp_path)), "T4").room / MiB
    assert last.largest and 600 + batches * last.values[0][1] == pytest.approx(room, rel=0.04)


def test_a_length_whose_batch_is_another_names_number_says_nothing_of_the_data(tmp_path: Path) -> None:
    trials = FakeTrials(lambda length: 4)

    *_, last = _search(trials, tmp_path)

    assert not last.all_data and max(trials.tried) > 8


def test_after_the_cell_as_it_is_comes_what_each_rung_allows(tmp_path: Path) -> None:
    trials = FakeTrials(lambda batch: 2 * batch, {"recompute": 0.25, "optimizer": 1.0, "spill": 0.05})

    told = _search(trials, tmp_path, "exact")

    room = choose_target(Settings(data=str(tmp_path)), "T4").room / MiB
    largest = {one.rung: one.values[0][1] for one in told if one.largest}
    assert 600 + 2 * largest[""] == pytest.approx(room, rel=0.04)
    for rung, part in (("recompute", 0.25), ("spill", 0.05)):
        assert 0.85 * room < 600 + 2 * part * largest[rung] <= room, (rung, largest)
        assert trials.ways.count(rung) <= 5
    assert [one_line(one) for one in told if one.rung == "allocator"] == [
        "By allocator, no larger one: it can do nothing."
    ]
    assert any(one_line(one).startswith("The largest that fits by by recompute is batch = ") for one in told)
    assert "micro-batches" not in trials.ways and trials.ways[-1] == "spill"


def test_a_rung_that_was_named_is_the_only_one(tmp_path: Path) -> None:
    trials = FakeTrials(lambda batch: 2 * batch, {"spill": 0.05})

    _search(trials, tmp_path, "spill")

    assert {*trials.ways} == {"", "spill"}


def test_all_of_the_data_by_a_rung_ends_its_search(tmp_path: Path) -> None:
    samples = 40_000
    trials = FakeTrials(lambda batch: min(batch, samples), {"spill": 0.05})

    told = _search(trials, tmp_path, "spill")

    assert told[-1].all_data and told[-1].values == (("batch", samples),)
    assert one_line(told[-1]).startswith("All of the data fits at once by by spill: batch = 40,000")
