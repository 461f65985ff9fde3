"""What a running job tells of itself."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import pytest

from jupyter_gpufit.estimate.pace import Pace
from jupyter_gpufit.worker.live import Live, Loss, Memory
from jupyter_gpufit.worker.messages import Metrics
from jupyter_gpufit.worker.metrics import Reading
from jupyter_gpufit.worker.telling import Telling

MEMORY = Memory(used=1, peak=2, estimate=3)


@dataclass
class Sampled:
    """A sampler that finds what a test says."""

    values: dict[str, float]

    def look(self) -> Reading:
        return Reading(self.values, ())

    def loss(self, values: Any) -> Loss | None:
        return Loss(name="loss", value=values["loss"]) if "loss" in values else None


def telling(sampled: Any) -> Telling:
    return Telling(io.StringIO(), _sampler=sampled)


def test_tells_the_latest_and_makes_a_point_of_what_is_new() -> None:
    sampled = Sampled({"loss": 0.5, "acc": float("inf")})
    told = telling(sampled)
    live, metrics = told.look(7, Pace(), MEMORY)
    assert live.loss == Loss(name="loss", value=0.5) and live.metrics == ("loss", "acc") and live.memory == MEMORY
    assert live.progress is not None and live.progress.step == 7
    assert metrics == Metrics(7, {"loss": 0.5, "acc": None})
    assert told.look(7, Pace(), MEMORY)[1] is None
    sampled.values = {"loss": 0.25}
    assert told.look(8, Pace(), MEMORY)[1] == Metrics(8, {"loss": 0.25})


def test_a_cell_without_numbers_makes_no_points() -> None:
    assert telling(Sampled({})).look(1, Pace(), MEMORY)[1] is None


def test_a_defect_of_ours_ends_no_training() -> None:
    class Broken:
        def look(self) -> Reading:
            raise ZeroDivisionError("ours")

    told = telling(Broken())
    assert told.look(1, Pace(), MEMORY) == told.look(1, Pace(), MEMORY) == (Live(memory=MEMORY), None)
    log = told.log
    assert isinstance(log, io.StringIO) and log.getvalue().count("ZeroDivisionError: ours") == 1


def test_live_survives_its_record() -> None:
    from dataclasses import asdict

    live, _ = telling(Sampled({"loss": 0.5})).look(7, Pace(), MEMORY)
    assert Live.from_record(asdict(live)) == live
    assert Live.from_record({}) == Live()
    assert Live.from_record({"loss": {"name": "loss", "value": 1.0, "later": 3}, "newer": 1}).loss == Loss(
        name="loss", value=1.0
    )


@pytest.mark.parametrize("rate", [None, 12.345678])
def test_the_pace_is_told(rate: float | None) -> None:
    pace = Pace()
    if rate is not None:
        pace.take(0.0, 0)
        pace.take(10.0, round(10 * rate))
    progress = telling(Sampled({})).look(1, pace, MEMORY)[0].progress
    assert progress is not None and progress.per_second == (None if rate is None else 12.3)
