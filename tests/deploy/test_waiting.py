"""Which calls are taken, which run next, and together."""

from __future__ import annotations

from math import inf

from jupyter_gpufit.calls.protocol import LARGEST, Call, Lying, encode
from jupyter_gpufit.deploy.desk import _order
from jupyter_gpufit.deploy.profile import Finish, Profile, Span
from jupyter_gpufit.deploy.reserve import Reserve
from jupyter_gpufit.deploy.residents import Residents
from jupyter_gpufit.deploy.schedule import MOST_TOGETHER, WaitingCall, told_of
from jupyter_gpufit.deploy.waiting import PROBED, Batch, QueueIsFull, WaitingCalls, WouldBeLate
from jupyter_gpufit.models.signature import Signature, Slot
from tests.deploy.overloaded import Overloaded

NOW = Span()


def call(client: int, rows: int, width: int = 4, *, model: int = 0, deadline: float = inf) -> WaitingCall:
    inputs = (Lying("float32", (rows, width), 0),)
    return WaitingCall(Call(inputs, 0, model, None if deadline == inf else deadline), client, 0.0, rows)


def queue(*calls: WaitingCall, most: int = 100, rows: int = 8, together: bool = True) -> WaitingCalls:
    found = WaitingCalls(most, rows, together=(together,))
    for one in calls:
        assert found.add(one, 0.0, NOW) is None
    return found


class Steady(Profile):
    """It takes so long for each row, neither more nor less."""

    def __init__(self, seconds: float, load: float) -> None:
        self._seconds = seconds
        self._loading = load

    def run(self, rows: int) -> Span:
        return Span(rows * self._seconds, rows * self._seconds)

    @property
    def load(self) -> Span:
        return Span(self._loading, self._loading)


def two_models(*, room: int = 200, load: float = 0.0) -> WaitingCalls:
    """Of which one takes a second for a row and the other one three."""
    residents = Residents([100, 100], room, {0: None, 1: None} if room == 200 else {0: None})
    found = WaitingCalls(100, 8, [Steady(1.0, load), Steady(3.0, load)], residents, (True, True))
    found.reserve.least = 0.0
    return found


def test_alike_calls_go_together_as_far_as_the_rows_reach_and_the_others_keep_their_order() -> None:
    a, b, other, c, d = call(1, 2), call(2, 3), call(3, 1, width=9), call(4, 4), call(5, 1)
    waiting = queue(a, b, other, c, d)
    assert waiting.next(0.0).calls == [a, b, d]  # c would be the ninth row
    assert waiting.next(0.0).calls == [other]
    assert waiting.next(0.0).calls == [c]
    assert waiting.next(0.0).calls == []


def test_what_may_not_go_together_goes_alone() -> None:
    a, b = call(1, 1), call(2, 1)
    waiting = queue(a, b, together=False)
    assert waiting.next(0.0).calls == [a]
    assert waiting.next(0.0).calls == [b]


def test_a_call_larger_than_a_batch_runs_alone() -> None:
    a, b = call(1, 20), call(2, 1)
    assert queue(a, b).next(0.0).calls == [a]


def test_a_batch_is_told_of_in_one_packet() -> None:
    waiting = queue(*(call(number, 1) for number in range(100)), rows=1000)
    assert len(waiting.next(0.0).calls) == MOST_TOGETHER


def test_a_packet_tells_of_as_many_as_it_has_room_for() -> None:
    """A table's columns are an input each."""
    columns = Signature((Slot("x", "float32", ("batch", 1)),) * 100, (Slot("y", "float32", ("batch",)),))
    each = Call((Lying("float32", (1, 1), 1 << 30),) * 100, 1 << 30)
    many = [WaitingCall(each, client, 0.0, told=told_of(columns)) for client in range(MOST_TOGETHER)]
    waiting = queue(*many, rows=100)
    calls = waiting.next(0.0).calls
    assert 1 < len(calls) < MOST_TOGETHER
    assert len(encode(_order(Batch(calls, []), 0))) <= LARGEST


def test_a_full_queue_takes_no_more_until_there_is_room() -> None:
    waiting = queue(call(1, 1), call(2, 5), most=2)
    assert waiting.add(call(3, 1), 0.0, NOW) == QueueIsFull(2) and len(waiting) == 2 and waiting.rows == 6
    waiting.next(0.0)
    assert waiting.add(call(3, 1), 0.0, NOW) is None


def test_who_is_gone_waits_no_more() -> None:
    a, b = call(1, 1), call(2, 1)
    waiting = queue(a, b)
    waiting.forget(lambda one: one.client == 1)
    assert list(waiting) == [b]
    assert waiting.clear() == [b] and not len(waiting)


# Deadlines --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_answered_in_time_is_refused_with_the_time_at_which_it_could() -> None:
    waiting = two_models()
    assert waiting.add(call(1, 1, model=1, deadline=15.0), 10.0, Span(12.0, 12.0)) is None  # the device is free at 12
    assert waiting.add(call(2, 1, model=1, deadline=17.0), 10.0, Span(12.0, 12.0)) == WouldBeLate(8.0)  # at 18
    assert waiting.add(call(2, 1, model=1, deadline=18.0), 10.0, Span(12.0, 12.0)) is None


def test_an_idle_device_is_tried_now_and_then_however_slow_it_seems() -> None:
    waiting = two_models()
    answers = [waiting.add(call(1, 1, model=1, deadline=2.0), 0.0, NOW) for _ in range(PROBED + 1)]
    assert answers == [WouldBeLate(3.0)] * PROBED + [None]  # what it takes now shows what can be taken
    assert waiting.add(call(2, 1, deadline=3.5), 0.0, NOW) == WouldBeLate(4.0)  # which is no licence for others


def test_nobody_is_taken_who_makes_another_one_late() -> None:
    waiting = two_models()
    assert waiting.add(call(1, 1, model=1, deadline=3.5), 0.0, NOW) is None
    assert waiting.add(call(2, 1, model=0, deadline=2.0), 0.0, NOW) == WouldBeLate(4.0)  # it would go first
    assert len(waiting) == 1


def test_the_earliest_deadline_goes_first_and_calls_without_one_go_last() -> None:
    waiting = two_models()
    late, soon, never = call(1, 1, deadline=9.0), call(2, 1, deadline=5.0), call(3, 1)
    for one in (never, late, soon):
        assert waiting.add(one, 0.0, NOW) is None
    assert list(waiting) == [soon, late, never]


def test_what_has_become_too_late_is_not_run_and_keeps_nobody_out() -> None:
    waiting = two_models()
    first = call(1, 1, deadline=2.0)
    assert waiting.add(first, 0.0, NOW) is None
    second = call(2, 1, model=1, deadline=5.0)
    assert waiting.add(second, 1.5, Span(1.5, 1.5)) is None  # by now the first one cannot be in time any more
    batch = waiting.next(1.5)
    assert batch.late == [first] and batch.calls == [second] and batch.span == Span(3.0, 3.0)


def test_calls_go_together_only_as_far_as_the_others_stay_in_time() -> None:
    calls = [call(number, 1, deadline=10.0) for number in range(4)]
    between = call(9, 1, model=1, deadline=5.5)
    waiting = two_models()
    for one in (*calls, between):
        assert waiting.add(one, 0.0, NOW) is None
    assert waiting.next(0.0).calls == [between]  # its deadline is the earliest
    waiting = two_models()
    for one in (call(7, 1, deadline=5.0), between, calls[0]):
        assert waiting.add(one, 0.0, NOW) is None
    assert waiting.add(calls[1], 0.0, NOW) is None  # not beside the first two: the other one would be late by that
    assert [[one.client for one in waiting.next(at).calls] for at in (0.0, 2.0, 5.0)] == [[7, 0], [9], [1]]


def test_a_load_counts_and_says_who_leaves() -> None:
    waiting = two_models(room=100, load=2.0)
    assert waiting.add(call(1, 1, model=1, deadline=5.9), 1.0, Span(1.5, 1.5)) == WouldBeLate(5.5)
    assert waiting.add(call(1, 1, model=1, deadline=5.1), 0.0, NOW) is None
    batch = waiting.next(0.0)
    assert (batch.load, batch.leaving, batch.span.most) == (True, (0,), 5.0)
    assert waiting.residents.inside == (1,)
    waiting.not_run(batch)
    assert not waiting.residents.inside


def test_who_is_wanted_soon_stays() -> None:
    residents = Residents([100, 100, 100, 0], 200, {0: None, 1: None})
    assert residents.use(2, wanted=[0]) == [1]  # though 0 was used longest ago
    assert residents.use(1, wanted=[0, 2]) == [2]
    assert residents.inside == (0, 1) and 3 in residents
    assert residents.use(0) == [] and residents.inside == (1, 0)


# How long it takes ------------------------------------------------------------------------------------------------


def test_what_is_measured_takes_the_place_of_what_was_tried() -> None:
    profile = Profile([(1, 1.0), (16, 4.0)])
    assert profile.run(1) == Span(1.0, 1.15) and profile.run(16) == Span(4.0, 4.6)
    assert profile.run(8).usual == 1 + 3 * 7 / 15 and profile.run(32).usual == 8.0
    for _ in range(100):
        profile.ran(1, 0.1)
    assert abs(profile.run(1).most - 0.115) < 1e-9 and profile.run(16).usual == 4.0


def test_a_device_that_has_become_slower_is_known_for_it_at_once_and_by_all_models() -> None:
    profile = Profile([(1, 1.0), (16, 4.0)])
    for _ in range(100):
        profile.ran(1, 1.0)
    before = profile.run(16).most
    for _ in range(8):
        profile.ran(1, 2.0)
    assert profile.run(1).most > 2.0 and profile.run(16).most > 1.3 * before


def test_what_is_feared_of_many_does_not_add_up() -> None:
    finish = Finish(10.0)
    for _ in range(4):
        finish = finish.after(Span(1.0, 2.0))
    assert finish.usual == 14.0 and finish.most == 16.0


def test_one_moment_in_which_the_device_stood_still_does_not_make_it_slow() -> None:
    profile = Profile([(1, 1.0)])
    for number in range(200):
        profile.ran(1, 30.0 if number % 10 == 9 else 1.0)
    assert profile.run(1).usual < 5.0  # the mean, and not by how much the last ones were longer than that


# How far what is foreseen is off ----------------------------------------------------------------------------------


def test_what_is_kept_in_reserve_is_what_was_off_before_it_makes_a_call_late() -> None:
    waiting = two_models()
    early = call(1, 1, deadline=10.0)
    assert waiting.add(early, 0.0, NOW) is None and early.promised == 1.0
    for late_by in (0.1, 3.0, 3.0):
        waiting.answered([early], early.promised + late_by)  # in time, all the same
    assert waiting.reserve.of(10.0) == 3.0 and waiting.reserve.of(2.0) == 1.6  # of a short call's time some is left
    waiting.next(0.0)
    assert waiting.add(call(2, 7, deadline=10.0), 0.0, NOW) is None
    assert waiting.add(call(3, 1, model=1, deadline=10.0), 0.0, NOW) == WouldBeLate(10.0)


def test_what_waits_longer_for_calls_that_came_later_was_not_promised_otherwise() -> None:
    waiting = two_models()
    patient, hasty = call(1, 1, model=1, deadline=60.0), call(2, 1, deadline=5.0)
    assert waiting.add(patient, 0.0, NOW) is None and waiting.add(hasty, 0.0, NOW) is None
    assert (hasty.promised, patient.promised) == (1.0, 4.0)


def test_how_long_answers_are_on_their_way_counts_too() -> None:
    reserve = Reserve()
    for _ in range(3):
        reserve.way.saw(0.5)
    assert reserve.of(1.0) == 0.7 and reserve.of(10.0) == 2.5


def test_a_call_that_comes_last_costs_no_more_where_hundreds_wait() -> None:
    asked = []

    class Counted(Steady):
        def run(self, rows: int) -> Span:
            asked.append(rows)
            return super().run(rows)

    waiting = WaitingCalls(1000, 8, [Counted(0.001, 0.0)], Residents([0]), (True,))
    counts = []
    for number in range(400):
        asked.clear()
        assert waiting.add(call(number, 1, deadline=10.0), 0.0, NOW) is None
        counts.append(len(asked))
    assert max(counts[200:]) <= max(counts[:16])


def test_half_as_much_again_as_it_can_do_is_refused_and_what_is_taken_is_kept() -> None:
    found = Overloaded().run(1.5, 3.0)
    assert found.met_of_taken > 0.99 and found.goodput > 0.6  # 0.67 is all that it can do of both alike
    assert Overloaded(admits=False).run(1.5, 3.0).goodput < 0.2


def test_on_a_device_that_stands_still_again_and_again_what_is_taken_is_kept_once_that_is_known() -> None:
    unsteady = Overloaded(deadline=0.2, stalls=1.0).run(1.0, 3.0)
    unsteady.ended.clear()
    assert unsteady.run(1.5, 5.0).met_of_taken > 0.99
    assert unsteady.goodput > 3 * Overloaded(deadline=0.2, stalls=1.0, admits=False).run(1.5, 5.0).goodput


def test_what_is_only_feared_to_be_late_is_kept_whoever_calls_meanwhile() -> None:
    waiting = two_models()
    first, busy = call(1, 1, deadline=4.0), Span(0.5, 0.5)
    assert waiting.add(first, 0.0, busy) is None
    waiting.add(call(2, 1, deadline=100.0), 2.5, busy)  # the device stands still: it may take 2 s more
    assert not waiting.take_late() and first in list(waiting)
    assert first in waiting.next(2.6).calls


def test_of_those_given_up_all_are_told_also_by_who_ends_it() -> None:
    waiting = two_models()
    late, other = call(1, 1, deadline=2.0), call(2, 1, deadline=100.0)
    assert waiting.add(late, 0.0, NOW) is None
    assert waiting.add(other, 5.0, Span(5.0, 5.0)) is None
    assert waiting.clear() == [late, other]


def test_the_time_that_a_refused_call_is_told_is_its_own_and_not_of_those_it_goes_before() -> None:
    waiting = two_models()
    for client in range(20):
        waiting.add(call(client, 8), 0.0, NOW)
    refused = waiting.add(call(100, 2, deadline=1.0), 0.0, Span(0.5, 0.5))
    assert isinstance(refused, WouldBeLate) and refused.seconds < 5
