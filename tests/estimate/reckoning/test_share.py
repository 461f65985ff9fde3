"""How much of its device a training should hold while it runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.estimate.reckoning.for_resume import SLOT_LEAST
from jupyter_gpufit.estimate.reckoning.share import Intake, enough, less, more
from jupyter_gpufit.units import GiB, MiB

TOTAL = 24 * GiB


def test_it_is_in_its_stride_after_enough_time_and_steps_without_growth() -> None:
    course = Intake().seen(2 * GiB, now=5, step=3)

    assert not course.is_in_its_stride(now=64, step=1000, after=60)
    assert not course.is_in_its_stride(now=66, step=80, after=60)
    assert course.is_in_its_stride(now=66, step=103, after=60)


def test_what_grew_late_is_watched_as_long_again() -> None:
    course = Intake().seen(GiB, now=1, step=1).seen(2 * GiB, now=500, step=400)

    assert not course.is_in_its_stride(now=900, step=4000, after=60)
    assert course.is_in_its_stride(now=1000, step=4000, after=60)


def test_without_an_optimizer_it_takes_ten_times_as_long() -> None:
    course = Intake().seen(GiB, now=1, step=0)

    assert not course.is_in_its_stride(now=590, step=0, after=60)
    assert course.is_in_its_stride(now=601, step=0, after=60)


def test_after_it_was_wrong_it_waits_longer() -> None:
    course = Intake().seen(GiB, now=0, step=0).was_wrong()

    assert not course.is_in_its_stride(now=200, step=399, after=60)
    assert not course.is_in_its_stride(now=300, step=399, after=60)
    assert course.is_in_its_stride(now=300, step=400, after=60)


def test_wobbling_is_no_growth() -> None:
    course = Intake().seen(GiB, now=1, step=1)

    assert course.seen(GiB + 5 * MiB, now=100, step=100) == course


@pytest.mark.parametrize(
    ("held", "peak", "wanted"),
    [
        (24 * GiB, 10 * GiB, 11 * GiB),
        (24 * GiB, 21 * GiB, None),  # nobody gains by it
        (12 * GiB, 10 * GiB, None),
        (24 * GiB, 0, 64 * MiB),  # it uses no GPU
    ],
)
def test_it_holds_less_where_others_gain_by_it(held: int, peak: int, wanted: int | None) -> None:
    assert less(held, Intake(peak=peak), TOTAL, on_slot=False) == wanted


def test_on_a_slot_it_keeps_the_least_that_one_needs() -> None:
    assert less(4 * GiB, Intake(peak=10 * MiB), 4 * GiB, on_slot=True) == SLOT_LEAST


@given(st.integers(0, TOTAL), st.booleans())
def test_who_just_shrank_needs_no_more_and_who_needs_more_gets_more_than_it_uses(peak: int, on_slot: bool) -> None:
    held = enough(peak, on_slot=on_slot)

    assert more(held, peak, on_slot=on_slot) is None
    wanted = more(held, held, on_slot=on_slot)
    assert wanted is not None and wanted > held and more(wanted, held, on_slot=on_slot) is None
