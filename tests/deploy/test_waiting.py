"""Which calls run next, and together."""

from __future__ import annotations

from jupyter_gpufit.calls.protocol import Call, Lying
from jupyter_gpufit.deploy.waiting import MOST_TOGETHER, WaitingCall, WaitingCalls


def call(client: int, rows: int, width: int = 4) -> WaitingCall:
    return WaitingCall(Call((Lying("float32", (rows, width), 0),), 0), client, 0.0, rows)


def queue(*calls: WaitingCall, most: int = 100) -> WaitingCalls:
    found = WaitingCalls(most)
    for one in calls:
        assert found.add(one)
    return found


def test_alike_calls_go_together_as_far_as_the_rows_reach_and_the_others_keep_their_order() -> None:
    a, b, other, c, d = call(1, 2), call(2, 3), call(3, 1, width=9), call(4, 4), call(5, 1)
    waiting = queue(a, b, other, c, d)
    assert waiting.next(8, together=True) == [a, b, d]  # c would be the ninth row
    assert waiting.next(8, together=True) == [other]
    assert waiting.next(8, together=True) == [c]
    assert waiting.next(8, together=True) == []


def test_what_may_not_go_together_goes_alone() -> None:
    a, b = call(1, 1), call(2, 1)
    waiting = queue(a, b)
    assert waiting.next(8, together=False) == [a]
    assert waiting.next(8, together=False) == [b]


def test_a_call_larger_than_a_batch_runs_alone() -> None:
    a, b = call(1, 20), call(2, 1)
    assert queue(a, b).next(8, together=True) == [a]


def test_a_batch_is_told_of_in_one_packet() -> None:
    waiting = queue(*(call(number, 1) for number in range(100)))
    assert len(waiting.next(1000, together=True)) == MOST_TOGETHER


def test_a_full_queue_takes_no_more_until_there_is_room() -> None:
    waiting = queue(call(1, 1), call(2, 5), most=2)
    assert not waiting.add(call(3, 1)) and len(waiting) == 2 and waiting.rows == 6
    waiting.next(1, together=True)
    assert waiting.add(call(3, 1))


def test_who_is_gone_waits_no_more() -> None:
    a, b = call(1, 1), call(2, 1)
    waiting = queue(a, b)
    waiting.forget(lambda one: one.client == 1)
    assert list(waiting) == [b]
    assert waiting.clear() == [b] and not len(waiting)
