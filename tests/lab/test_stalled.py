"""Who is not waited for any longer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.lab.stalled import FORGIVEN, MOST_OWED, PASSED_AFTER, Passing
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, EVE, claim, ticket


def test_who_could_start_for_long_is_passed_for_good() -> None:
    stopped, passing = ticket(), Passing()
    passing.note([stopped], 100.0)
    assert passing.update([stopped], 109.0) == set()
    assert passing.due(109.0) == 1.0
    assert passing.update([stopped], 110.0) == {stopped.id}
    passing.note([], 111.0)  # a device is taken meanwhile
    assert passing.update([stopped], 999.0) == {stopped.id}
    assert passing.due(999.0) is None


def test_a_turn_is_not_longer_for_being_interrupted() -> None:
    slow, passing = ticket(), Passing()
    passing.note([slow], 100.0)
    passing.note([], 109.0)
    passing.note([slow], 109.5)
    assert passing.update([slow], 110.0) == set()
    assert passing.update([slow], 111.0) == {slow.id}


def test_tickets_that_let_their_turn_go_have_one_grace_together() -> None:
    """Each for nine seconds, and then another one in its place: for ever, were each forgiven what the last one cost."""
    passing, held_up = Passing(), 0.0
    for turn in range(60):
        eve, start = ticket(EVE), 9.0 * turn
        passing.update([eve], start)
        if eve.id not in passing.update([eve], start):
            passing.note([eve], start)
            due = passing.due(start)
            held_up += min(9.0, due or 0.0)
            passing.update([eve], start + min(9.0, due or 0.0))
        passing.note([], start + 9.0)
    assert held_up <= PASSED_AFTER + 60 * 9.0 / FORGIVEN + 0.01


def test_room_that_was_kept_in_vain_is_charged() -> None:
    large, passing = ticket(EVE), Passing()
    passing.update([large], 0.0)
    passing.note([], 0.0, kept=[large])
    assert passing.update([large], 1000.0) == set()  # it waits, as it may
    passing.update([], 1000.0)
    again, other = ticket(EVE), ticket(ADA)
    assert passing.update([again, other], 1000.0) == {again.id}
    assert passing.update([again, other], 1000.0 + MOST_OWED * FORGIVEN) == set()  # not for ever


def test_who_takes_a_turn_is_not_charged() -> None:
    large, passing = ticket(ADA), Passing()
    passing.update([large], 0.0)
    passing.note([large], 0.0, kept=[large])
    taken = claim(["cpu:0"], 4 * GiB, ADA)
    passing.update([large], 8.0, [taken])  # published, and not yet out of the queue
    assert passing.update([], 8.1, [taken]) == set()
    passing.update([], 20.0, [taken])
    assert passing.owed == {}


def test_a_claim_for_an_instant_buys_nothing_back() -> None:
    eve, passing = ticket(EVE), Passing()
    passing.update([eve], 0.0)
    passing.note([eve], 0.0)
    instant = claim(["cpu:0"], 4 * GiB, EVE)
    passing.update([], 9.0, [instant])
    passing.update([], 9.1, [])
    assert passing.owed[EVE] > 8.5


def test_what_another_job_remembers_counts() -> None:
    eve, passing = ticket(EVE), Passing()
    passing.remember({EVE: PASSED_AFTER + 1})
    assert passing.update([eve], 0.0) == {eve.id}


moves = st.lists(
    st.tuples(st.sampled_from(["enter", "leave", "swap", "claim"]), st.floats(0.01, 12.0), st.integers(0, 3)),
    max_size=60,
)


@given(moves)
def test_whatever_a_user_does_without_claiming_they_hold_others_up_for_one_grace(
    moves: list[tuple[str, float, int]],
) -> None:
    """Eve's tickets come, go and change places; whichever is her first could start, unless she is passed."""
    passing, queue, now, held_up = Passing(), [ticket(EVE)], 0.0, 0.0
    for move, seconds, which in moves:
        match move:
            case "enter":
                queue.append(ticket(EVE))
            case "leave":
                queue[which : which + 1] = []
            case "swap":
                queue.reverse()
        passed = passing.update(queue, now)
        starting = [mine for mine in queue if mine.id not in passed][:1]
        passing.note(starting, now)
        due = passing.due(now) if starting else None
        if due is not None:
            held_up += min(seconds, due)
            passing.update(queue, now + min(seconds, due))
        now += seconds
    assert held_up <= PASSED_AFTER + now / FORGIVEN + 0.01


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
