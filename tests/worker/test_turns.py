"""What counts as computing: a step, or a processor's time; and what a job says of its turn."""

from __future__ import annotations

from jupyter_gpufit.worker.turns import Activity, processor_seconds


def test_a_step_or_a_processors_time_is_computing_and_a_wait_is_not() -> None:
    used = 0.0
    activity = Activity(sample=10, cpu=lambda: used)
    assert activity.look(1000, step=0) == 1000
    assert activity.look(1010, step=1) == 1010
    used += 5
    assert activity.look(1020, step=1) == 1020
    used += 0.5  # what looking on costs
    assert activity.look(1030, step=1) == 1020
    assert activity.look(1035, step=2) == 1020  # not looked at before the sample is over
    assert activity.look(1040, step=2) == 1040


def test_children_that_end_do_not_look_like_rest() -> None:
    used = 100.0
    activity = Activity(sample=10, cpu=lambda: used)
    activity.look(1000, step=0)
    used = 40.0  # a loader's workers are gone, and their time with them
    assert activity.look(1010, step=0) == 1010


def test_this_process_computes() -> None:
    before = processor_seconds()
    sum(number * number for number in range(200_000))
    assert processor_seconds() > before
