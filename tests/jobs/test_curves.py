"""What is kept of a job's numbers."""

from __future__ import annotations

import pytest

from jupyter_gpufit.jobs.curves import LATEST, MOST_NAMES, OLDER, Break, Curve, Curves, runs
from jupyter_gpufit.jobs.events import DeviceMark, Lap, Metrics, ProgressMark, StateChange, Text
from jupyter_gpufit.jobs.state import State


def curve(count: int) -> Curve:
    made = Curve()
    for at in range(count):
        made.add(float(at), 2.0 * at)
    return made


@pytest.mark.parametrize("count", [0, 1, LATEST, LATEST + 1, 5 * LATEST, 100 * LATEST])
def test_the_latest_as_they_are_and_the_whole_thinned(count: int) -> None:
    points = curve(count).points()
    assert points == sorted(points) and len(points) <= LATEST + OLDER
    assert points[-LATEST:] == [(float(at), 2.0 * at) for at in range(max(0, count - LATEST), count)]
    assert not points or points[0] == (0.0, 0.0)


def test_of_what_is_thinned_the_spikes_stay() -> None:
    made = Curve()
    for at in range(200 * LATEST):
        made.add(float(at), {777: 9.0, 123_456: -9.0}.get(at, (at % 10) / 10))
    older = made.older
    assert (777.0, 9.0) in older and (123_456.0, -9.0) in older and OLDER / 3 <= len(older) <= OLDER
    gaps = [b - a for (a, _), (b, _) in zip(older, older[1:], strict=False)]
    assert max(gaps) < 8 * 200 * LATEST / OLDER, "it stays even"


def test_a_job_that_goes_on_from_a_checkpoint_draws_over_what_is_lost() -> None:
    made = curve(LATEST + 500)
    made.add(700.0, -1.0)
    assert made.points()[-2:] == [(700.0, 1400.0), (700.0, -1.0)]
    made.add(100.0, -2.0)
    assert made.points()[-1] == (100.0, -2.0) and len(made.points()) <= 103
    made.add(101.0, -3.0)
    assert [at for at, _ in made.points()][-2:] == [100.0, 101.0]


def test_the_numbers_of_a_job() -> None:
    curves = Curves()
    curves.take(Metrics(3, {"loss": None, "acc": 0.5}), 10.0)
    curves.take(ProgressMark(3, 7, 9), 11.0)
    curves.take(Text("stdout", "x"), 12.0)
    assert curves.metrics["loss"].points() == [(3.0, None)] and curves.metrics["acc"].points() == [(3.0, 0.5)]
    assert curves.memory.points() == [(11.0, 7.0)] and not curves.older


def test_what_the_device_did_and_where_epochs_began() -> None:
    curves = Curves()
    for event in (DeviceMark(93, None), Lap(0, 1), Lap(10, 2), Lap(20, 3), Lap(12, 2), Lap(19, 3)):
        curves.take(event, 10.0)
    assert curves.busy.points() == [(10.0, 93.0)] and not curves.power.points()
    # It went on from step 12, in the middle of the second.
    assert [(lap.step, lap.number) for lap in curves.laps] == [(0, 1), (10, 2), (19, 3)]


def test_a_loop_that_makes_new_names_takes_no_more_and_more() -> None:
    curves = Curves()
    for step in range(2 * MOST_NAMES):
        curves.take(Metrics(step, {f"loss{step}": 1.0}), 1.0)
    assert len(curves.metrics) == MOST_NAMES


def test_a_number_that_stays_as_it_is_is_drawn_to_where_the_training_is() -> None:
    curves = Curves()
    curves.take(Metrics(1, {"warmup": 9.0, "loss": 0.5}), 10.0)
    curves.take(Metrics(3, {"loss": 0.5}), 11.0)
    curves.take(ProgressMark(500, 7, 9), 12.0)
    assert curves.points("loss") == [(1.0, 0.5), (3.0, 0.5), (500.0, 0.5)]
    assert curves.points("warmup") == [(1.0, 9.0)]  # the loop has it no more
    curves.take(StateChange("released"), 13.0)
    curves.take(ProgressMark(501, 7, 9), 50.0)
    assert curves.points("loss")[-1] == (500.0, 0.5)  # up to the break, and not over it
    curves.take(Metrics(502, {"loss": 0.4}), 51.0)
    assert curves.points("loss") == [(1.0, 0.5), (3.0, 0.5), (500.0, 0.5), (502.0, 0.4)]
    assert curves.points("warmup") == [(1.0, 9.0)]


def test_up_to_where_a_killed_worker_went_on_its_numbers_stay() -> None:
    curves = Curves()
    curves.take(StateChange("running", device="0", epoch=1), 9.0)
    curves.take(Metrics(3, {"loss": 0.5}), 11.0)
    curves.take(ProgressMark(9, 7, 9), 12.0)
    curves.take(StateChange("running", device="1", epoch=2), 90.0)  # from a checkpoint at step 7
    curves.take(Metrics(8, {"loss": 0.4}), 91.0)
    assert curves.points("loss") == [(3.0, 0.5), (7.0, 0.5), (8.0, 0.4)]
    curves.take(StateChange("running", device="0", epoch=3), 190.0)  # and from step 2
    curves.take(ProgressMark(3, 7, 9), 191.0)
    assert curves.points("loss")[-1] == (8.0, 0.4)


def test_where_it_was_released_there_is_a_break() -> None:
    curves = Curves()
    for step, when in ((5, 10.0), (6, 11.0)):
        curves.take(ProgressMark(step, 7, 9), when)
    states: list[State] = ["moving", "released", "queued", "running", "saving"]
    for at, state in enumerate(states):
        curves.take(StateChange(state), 12.0 + at)
    curves.take(Metrics(6, {"loss": 0.5}), 50.0)
    assert list(curves.breaks) == [Break(5.0, 13.0, 50.0)]
    curves.take(StateChange("starting"), 90.0)  # its worker was killed, and another one goes on from an earlier step
    curves.take(ProgressMark(4, 7, 9), 95.0)
    assert curves.breaks[-1] == Break(3.0, 50.0, 95.0)


def test_where_it_moved_there_is_a_break_too() -> None:
    curves = Curves()
    curves.take(StateChange("running", device="0", epoch=1), 9.0)
    curves.take(ProgressMark(5, 7, 9), 10.0)
    curves.take(StateChange("moving", device="0", epoch=1), 11.0)
    curves.take(ProgressMark(6, 7, 9), 12.0)
    curves.take(StateChange("running", device="1", epoch=2), 40.0)
    curves.take(ProgressMark(6, 1, 9), 42.0)
    assert list(curves.breaks) == [Break(5.0, 12.0, 42.0)]


def test_no_line_joins_what_a_break_parts() -> None:
    points = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0), (4.0, None), (5.0, 5.0)]
    assert runs(points, [2.5, 2.0]) == [[(1.0, 1.0), (2.0, 2.0)], [(3.0, 3.0)], [(5.0, 5.0)]]
    assert runs(points, []) == [points[:3], points[4:]] and runs([], [1.0]) == []
