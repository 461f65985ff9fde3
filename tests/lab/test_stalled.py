"""Who is not waited for any longer."""

from __future__ import annotations

from jupyter_gpufit.lab.stalled import PASSED_AFTER, Passing
from tests.lab.values import ADA, EVE, ticket


def test_who_could_start_for_long_is_passed_for_good() -> None:
    stopped, passing = ticket(), Passing()
    passing.note([stopped], 100.0)
    assert passing.update([stopped], 109.0) == set()
    assert passing.due(109.0) == 1.0
    assert passing.update([stopped], 110.0) == {stopped.id}
    passing.note([], 111.0)  # a device is taken meanwhile
    assert passing.update([stopped], 999.0) == {stopped.id}
    assert passing.due(999.0) is None


def test_who_could_not_start_in_between_begins_anew() -> None:
    slow, passing = ticket(), Passing()
    passing.note([slow], 100.0)
    passing.note([], 109.0)
    passing.note([slow], 109.5)
    assert passing.update([slow], 111.0) == set()


def test_who_left_the_queue_is_forgotten() -> None:
    gone, passing = ticket(), Passing()
    passing.note([gone], 0.0)
    passing.update([gone], 100.0)
    passing.note([], 100.0)
    assert passing.update([], 100.0) == set()


def test_a_hundred_tickets_that_never_start_cost_little_more_than_one() -> None:
    flood, passing, now = [ticket(EVE) for _ in range(100)], Passing(), 0.0
    for first in flood:
        passing.note([first], now)
        due = passing.due(now)
        assert due is not None
        now += due
        assert first.id in passing.update(flood, now)
    assert now <= 2 * PASSED_AFTER


def test_one_users_stopped_job_does_not_hurry_another() -> None:
    eves, adas, passing = ticket(EVE), ticket(ADA), Passing()
    passing.note([eves], 0.0)
    passing.update([eves], PASSED_AFTER)
    passing.note([eves, adas], PASSED_AFTER)
    assert passing.due(PASSED_AFTER) == PASSED_AFTER
