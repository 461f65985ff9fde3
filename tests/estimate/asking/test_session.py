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
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import MiB

SAMPLES = 2000


class FakeTrials:
    """Trial runs of a cell with so much data."""

    def __init__(self, batch_of: Callable[[int], int]) -> None:
        self.batch_of = batch_of
        self.tried: list[int] = []

    async def ask(self, ask: Ask) -> TraceAnswer:
        self.tried.append(ask.values["batch"])
        batch = self.batch_of(self.tried[-1])
        need = (600 + batch) * MiB
        estimate = Estimate(card="T4", card_total=15_360 * MiB, need=need, low=need, high=need, steps=min(batch, 2))
        return TraceAnswer(estimate=estimate, batch=batch)


def _search(trials: FakeTrials, home: Path) -> list[Told]:
    settings = Settings(data=str(home), lab=str(home))
    told: list[Told] = []
    asking = _Asking(trials, choose_target(settings, "T4"), EstimateWish(max_batch="batch"), settings)  # type: ignore[arg-type]
    search = LargestSearch("batch", asking.target.room, asking.ask, told.append)
    anyio.run(search.run, "no")
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
