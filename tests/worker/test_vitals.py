"""What a running job tells of itself."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from jupyter_gpufit.estimate.reckoning.pace import Pace
from jupyter_gpufit.fit.rungs.pager import PagedBytes
from jupyter_gpufit.jobs.events import Metrics
from jupyter_gpufit.jobs.live import Live, Loss, Memory
from jupyter_gpufit.worker import copies
from jupyter_gpufit.worker.main_thread import MainThread
from jupyter_gpufit.worker.metrics import Reading
from jupyter_gpufit.worker.points import Points
from jupyter_gpufit.worker.vitals import Vitals, mark_last

MEMORY = Memory(used=1, peak=2, estimate=3)


@dataclass
class Sampled:
    """A sampler that finds what a test says."""

    values: dict[str, float]
    elsewhere_too: bool = False

    def look(self) -> Reading:
        return Reading(self.values, (), self.elsewhere_too)

    def elsewhere(self) -> dict[str, Any]:
        return {"loss": torch.tensor(0.125)}

    def loss(self, values: Any) -> Loss | None:
        return Loss(name="loss", value=values["loss"]) if "loss" in values else None


class Program:
    """A program at whose safe points a test calls."""

    pending = False
    at_safe_point: Callable[[], None]


def telling(sampled: Any, program: Program | None = None) -> Vitals:
    points = Points(program or Program(), MainThread(), io.StringIO)
    return Vitals(io.StringIO(), points, _sampler=sampled)


def test_does_not_look_while_the_program_is_being_saved() -> None:
    sampled = Sampled({"loss": 0.5})
    told = telling(sampled)
    before, _ = told.look(1, Pace(), MEMORY)
    sampled.values = {"loss": 0.25}
    with told.points.reading:
        during, found = told.look(2, Pace(), Memory(used=9, peak=9))
        assert not found and during.loss == before.loss and during.memory == Memory(used=9, peak=9)
    after, _ = told.look(3, Pace(), MEMORY)
    assert after.loss == Loss(name="loss", value=0.25)


def test_until_a_resumed_loop_comes_to_its_loss_the_one_of_before_is_told() -> None:
    before, sampled = Loss(name="loss", value=0.5), Sampled({})
    told = telling(sampled)
    told._live = Live(loss=before)
    assert told.look(7, Pace(), MEMORY)[0].loss == before
    sampled.values = {"loss": 0.25}
    assert told.look(8, Pace(), MEMORY)[0].loss == Loss(name="loss", value=0.25)


def test_tells_the_latest_and_makes_a_point_of_what_is_new() -> None:
    sampled = Sampled({"loss": 0.5, "acc": float("inf")})
    told = telling(sampled)
    live, found = told.look(7, Pace(), MEMORY)
    assert live.loss == Loss(name="loss", value=0.5) and live.metrics == ("loss", "acc") and live.memory == MEMORY
    assert live.progress is not None and live.progress.step == 7
    assert found == [Metrics(7, {"loss": 0.5, "acc": None})]
    assert not told.look(7, Pace(), MEMORY)[1]
    sampled.values = {"loss": 0.25}
    assert told.look(8, Pace(), MEMORY)[1] == [Metrics(8, {"loss": 0.25})]
    # One that stays as it is has its points, too: else its curve would slope to where it changes.
    assert told.look(9, Pace(), MEMORY)[1] == [Metrics(9, {"loss": 0.25})]


class Event:
    """A CUDA event that has happened when a test says so."""

    happened = False

    def record(self) -> None: ...

    def query(self) -> bool:
        return Event.happened


def test_a_number_on_a_gpu_is_fetched_at_a_safe_point_and_waited_for_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # where a CPU tensor says it is
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(copies, "_pinned", lambda: torch.empty(copies.MOST))
    monkeypatch.setattr(Event, "happened", False)
    program = Program()
    told = telling(Sampled({"acc": 0.5}, True), program)
    assert told.look(1, Pace(), MEMORY)[1] == [Metrics(1, {"acc": 0.5})]
    assert program.pending
    program.at_safe_point()
    assert told.look(2, Pace(), MEMORY)[1] == [Metrics(2, {"acc": 0.5})]
    assert not program.pending  # still on its way
    Event.happened = True
    live, points = told.look(3, Pace(), MEMORY)
    assert live.loss == Loss(name="loss", value=0.125) and points == [Metrics(3, {"loss": 0.125, "acc": 0.5})]
    assert program.pending


def test_nothing_is_copied_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    one = copies.Copies(lambda: {"loss": torch.tensor(1.0)})
    one.take()
    assert not one.under_way and one.arrived() == {}


def test_a_cell_without_numbers_makes_no_points() -> None:
    assert telling(Sampled({})).look(1, Pace(), MEMORY)[1] == []


def test_a_defect_of_ours_ends_no_training() -> None:
    class Broken:
        elsewhere = None

        def look(self) -> Reading:
            raise ZeroDivisionError("ours")

    told = telling(Broken())
    assert told.look(1, Pace(), MEMORY) == told.look(1, Pace(), MEMORY) == (Live(memory=MEMORY), [])
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


def test_what_the_plan_took_of_the_host_is_told_in_the_end_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_gpufit.worker.vitals.moved", lambda: PagedBytes(taken=7))
    told: list[Live] = []
    training: Any = SimpleNamespace(
        meter=SimpleNamespace(used=lambda: 3, peak=lambda: 5),
        silent=False,
        steps=SimpleNamespace(step=2, finish=lambda: None),
        handover=SimpleNamespace(foreseen=4),
        last={},
    )
    account: Any = SimpleNamespace(
        output=SimpleNamespace(put=lambda event: None),
        record=SimpleNamespace(live=Live()),
        far=lambda step, live: told.append(live),
    )
    mark_last(training, account)
    assert [live.memory for live in told] == [Memory(used=3, peak=5, estimate=4, host=7)]
