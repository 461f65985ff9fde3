"""On how many devices a training goes on: by what its own steps took, and only where it is worth the change."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from jupyter_gpufit.fit.elastic import LEAST_GAIN, WORTH, Underway, better, seconds_with

HOUR = 3600.0


def test_more_devices_are_taken_where_they_save_more_than_the_change_costs() -> None:
    now = Underway(2, {2: 1.0}, HOUR, 10.0)
    change = better(now, (1, 2, 3, 4))
    assert change is not None and change.devices == 4 and change.faster == pytest.approx(1 / 0.55)
    assert change.saves == pytest.approx(0.45 * HOUR)
    assert better(Underway(2, {2: 1.0}, 40.0, 10.0), (1, 2, 3, 4)) is None, "it ends before that pays"
    assert better(now, (1, 2)) is None


def test_where_a_second_device_brought_nothing_no_third_is_taken_and_it_is_given_back() -> None:
    measured = {1: 1.0, 2: 1.2}
    assert seconds_with(measured, 4) >= 1.0
    change = better(Underway(2, measured, HOUR, 10.0), (1, 2, 3, 4))
    assert change is not None and change.devices == 1
    assert better(Underway(1, measured, HOUR, 10.0), (1, 2, 3, 4)) is None


def test_of_numbers_that_are_as_good_the_fewest_devices_are_taken() -> None:
    change = better(Underway(1, {1: 1.0, 2: 0.52, 4: 0.5}, HOUR, 10.0), (1, 2, 4))
    assert change is not None and change.devices == 2


def test_it_spends_a_fifth_of_its_time_on_changes_at_most() -> None:
    assert better(Underway(2, {2: 1.0}, HOUR, 10.0, stayed=49.0), (2, 4)) is None
    assert better(Underway(2, {2: 1.0}, HOUR, 10.0, stayed=51.0), (2, 4)) is not None


@given(
    some.dictionaries(some.integers(1, 8), some.floats(1e-3, 1e3), min_size=1),
    some.floats(0, 1e6),
    some.floats(0.1, 1e3),
    some.integers(1, 8),
)
def test_no_change_without_its_worth_and_none_back_and_forth(
    measured: dict[int, float], left: float, cost: float, here: int
) -> None:
    assume(here in measured)
    change = better(Underway(here, measured, left, cost), range(1, 9))
    if change is None:
        return
    assert change.devices != here and change.faster >= LEAST_GAIN and change.saves >= WORTH * cost
    there = {**measured, change.devices: seconds_with(measured, change.devices)}
    back = better(Underway(change.devices, there, left / change.faster, cost), (here, change.devices))
    assert back is None, "what was foreseen has come true"


@given(some.dictionaries(some.integers(1, 8), some.floats(1e-3, 1e3), min_size=1), some.integers(1, 16))
def test_a_time_is_positive_and_what_was_measured_stays(measured: dict[int, float], devices: int) -> None:
    assert seconds_with(measured, devices) > 0
    assert all(seconds_with(measured, number) == seconds for number, seconds in measured.items())
