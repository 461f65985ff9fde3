"""The order of the queue: fair across people, and the same for everybody."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.lab.order import decayed_seconds, fair_order, used_by_user
from jupyter_gpufit.lab.policy import DAY, Policy
from jupyter_gpufit.lab.record import Ticket
from tests.lab.values import ADA, BOB, EVE, claim, ticket

POLICY = Policy()


def order(tickets: list[Ticket], used: dict[int, float] | None = None, policy: Policy = POLICY) -> list[Ticket]:
    return fair_order(tickets, used or {}, policy)


def test_within_one_user_first_come_is_first_served() -> None:
    first, second, third = (ticket(ADA, since) for since in (1, 2, 3))
    assert order([third, first, second]) == [first, second, third]


def test_users_take_turns() -> None:
    ada = [ticket(ADA, since) for since in range(5)]
    bob = [ticket(BOB, since) for since in (10, 11)]
    assert order([*ada, *bob]) == [ada[0], bob[0], ada[1], bob[1], ada[2], ada[3], ada[4]]


def test_a_thousand_tickets_gain_nothing() -> None:
    flood = [ticket(EVE, since) for since in range(1000)]
    late = ticket(ADA, 5000)
    assert order([*flood, late]).index(late) == 1


def test_who_used_less_comes_first() -> None:
    ada, bob = ticket(ADA, 1), ticket(BOB, 2)
    assert order([ada, bob], {ADA: 7200.0, BOB: 60.0}) == [bob, ada]


def test_a_running_claim_costs_from_its_first_moment() -> None:
    ada, bob = ticket(ADA, 1), ticket(BOB, 2)
    used = used_by_user([claim(["cpu:0"], 1, uid=ADA, since=100)], {}, POLICY, now=100.0)
    assert order([ada, bob], used) == [bob, ada]


def test_long_ago_counts_less() -> None:
    week = 7 * DAY
    ago = decayed_seconds(0, 3600, half_life=week, now=3600 + week)
    now = decayed_seconds(0, 3600, half_life=week, now=3600)
    assert ago == pytest.approx(now / 2)
    assert now == pytest.approx(3600, rel=0.01)


def test_a_clock_set_back_gives_nothing() -> None:
    assert decayed_seconds(100, 50, half_life=DAY, now=50) == 0


def test_the_administrators_priority_comes_before_fairness() -> None:
    ada, bob = ticket(ADA, 1), ticket(BOB, 2)
    policy = Policy(users={str(BOB): {"priority": 1}})
    assert order([ada, bob], {BOB: 1e6}, policy) == [bob, ada]


tickets = st.lists(st.builds(ticket, st.sampled_from([ADA, BOB, EVE]), st.integers(0, 3)), max_size=20)
uses = st.dictionaries(st.sampled_from([ADA, BOB, EVE]), st.floats(0, 1e6))


@given(tickets, uses, st.randoms())
def test_every_observer_computes_the_same_order(tickets: list[Ticket], used: dict[int, float], random: object) -> None:
    seen = order(tickets, used)
    random.shuffle(tickets)  # type: ignore[attr-defined]
    assert order(tickets, used) == seen
    assert sorted(seen, key=id) == sorted(tickets, key=id)


@given(tickets, uses)
def test_nobody_is_passed_more_often_than_their_use_explains(tickets: list[Ticket], used: dict[int, float]) -> None:
    """Between two users, one is ahead by as many turns as the other's use is worth, and one for the start."""
    served: defaultdict[int, int] = defaultdict(int)
    queue = order(tickets, used)
    for place, turn in enumerate(queue):
        for uid in {other.uid for other in queue[place:]} - {turn.uid}:
            ahead = (used.get(uid, 0) - used.get(turn.uid, 0)) / POLICY.entry_penalty
            assert served[turn.uid] - served[uid] <= max(0, ahead) + 1
        served[turn.uid] += 1
