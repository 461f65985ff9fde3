"""Whose turn it is: nobody behind can make anybody before wait longer."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.lab.order import fair_order
from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.reasons import explain
from jupyter_gpufit.lab.record import Claim, Ticket
from jupyter_gpufit.lab.turn import Go, Wait, everyones_turn, held_back, whose_turn
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, BOB, claim, slots, spaces, ticket

POLICY = Policy()


def need(gib: int | None, **more: Any) -> Ticket:
    return ticket(needed=None if gib is None else gib * GiB, **more)


def turns(queue: list[Ticket], here: list[Space], claims: list[Claim], policy: Policy = POLICY) -> str:
    """For each ticket the device it may go to, or "-"."""
    return " ".join(
        ",".join(device.label for device in turn.placement.devices) if isinstance(turn, Go) else "-"
        for turn in everyones_turn(queue, here, claims, policy)
    )


def test_all_who_fit_beside_each_other_start() -> None:
    assert turns([need(3), need(3), need(3)], spaces(slots(4, 4)), []) == "cpu:0 cpu:1 -"


def test_small_jobs_do_not_starve_a_large_one() -> None:
    held = [claim(["cpu:0"], 5 * GiB)]
    assert turns([need(8), need(3)], spaces(slots(8)), held) == "- -"


def test_room_that_is_left_over_in_any_case_is_used() -> None:
    held = [claim(["cpu:0"], 60 * GiB)]
    assert turns([need(40), need(10)], spaces(slots(80)), held) == "- cpu:0"
    assert turns([need(72), need(10)], spaces(slots(80)), held) == "- -"


def test_a_device_that_those_before_cannot_use_is_free_for_all() -> None:
    held = [claim(["cpu:0"], 8 * GiB)]
    assert turns([need(6), need(2)], spaces(slots(8, 4)), held) == "- cpu:1"
    assert turns([need(2, gpu="cpu:0"), need(2)], spaces(slots(8, 4)), held) == "- cpu:1"


def test_a_job_for_several_devices_gets_them_in_the_end() -> None:
    here, held = spaces(slots(8, 8, 8)), [claim(["cpu:0"], 8 * GiB), claim(["cpu:1"], 8 * GiB)]
    large, small = need(None, count=2), need(1)

    assert turns([large, small], here, held) == "- -"
    assert held_back([large, small], here, held) == {"cpu:2": large}
    assert turns([large, small], here, held[1:]) == "cpu:0,cpu:2 -"


def test_a_whole_device_is_not_nibbled_at() -> None:
    held = [claim(["cpu:0"], GiB)]
    assert turns([need(None), need(1)], spaces(slots(8)), held) == "- -"
    assert turns([need(2, exclusive=True), need(1)], spaces(slots(8)), held) == "- -"


def test_who_can_never_start_holds_nobody_up() -> None:
    assert turns([need(99), need(2, gpu="unknown"), need(8)], spaces(slots(8)), []) == "- - cpu:0"


def test_a_users_limit_holds_up_nobody_else() -> None:
    policy = Policy(users={str(ADA): {"devices": 1}})
    held = [claim(["cpu:0"], GiB, uid=ADA)]
    queue = [ticket(ADA), ticket(BOB)]

    assert turns(queue, spaces(slots(8, 8)), held, policy) == "- cpu:1"
    waiting = whose_turn(queue[0], queue, spaces(slots(8, 8)), held, policy)
    assert isinstance(waiting, Wait) and waiting.limit == f"the lab's policy allows uid {ADA} 1 device at once"


def test_who_waits_for_the_hosts_memory_keeps_no_device_and_nobody_who_takes_of_it_goes_by() -> None:
    policy = Policy(host=10 * GiB)
    held, here = [claim(["cpu:0"], GiB, host=7 * GiB)], spaces(slots(8, 8))
    large, small = (need(2, host=gib * GiB, gpu="cpu:0") for gib in (4, 2))
    none = need(8)

    assert turns([small, large, none], here, held, policy) == "cpu:0 - cpu:1"
    assert turns([large, small, none], here, held, policy) == "- - cpu:1"
    assert turns([large, small], here, [], policy) == "cpu:0 cpu:0"
    waiting = whose_turn(large, [large], here, held, policy)
    assert isinstance(waiting, Wait) and "plans may have 10.0 GiB and jobs hold 7.0 GiB" in waiting.limit


def test_who_can_never_have_so_much_of_the_hosts_memory_holds_nobody_up() -> None:
    policy, here = Policy(host=10 * GiB, drained=("cpu:1",)), spaces(slots(8, 8))
    drained = replace(here[1], closed=policy.closed(here[1].device))
    small, forged = need(2, host=2 * GiB), need(2, host=1 << 60)
    elsewhere = need(2, host=9 * GiB, gpu="cpu:1")
    held = [claim(["cpu:0"], GiB, host=7 * GiB)]

    assert turns([forged, small], here, [], policy) == "- cpu:0"
    assert turns([elsewhere, small], [here[0], drained], held, policy) == "- cpu:0"
    taken = claim(["cpu:1"], 8 * GiB)
    assert turns([elsewhere, small], here, [*held, taken], policy) == "- cpu:0"


def test_a_user_holds_no_more_of_the_hosts_memory_than_there_is_for_plans() -> None:
    held = [claim(["cpu:0"], GiB, host=1 << 60), claim(["cpu:0"], GiB, host=1 << 60)]
    mine = need(2, host=GiB)
    waiting = whose_turn(mine, [mine], spaces(slots(8)), held, Policy(host=10 * GiB))
    assert isinstance(waiting, Wait) and "jobs hold 10.0 GiB" in waiting.limit


def test_memory_can_be_limited_too() -> None:
    policy = Policy(users={str(ADA): {"memory": 6 * GiB}})
    held = [claim(["cpu:0"], 4 * GiB, uid=ADA)]
    assert turns([ticket(ADA, needed=2 * GiB)], spaces(slots(8)), held, policy) == "cpu:0"
    assert turns([ticket(ADA, needed=3 * GiB)], spaces(slots(8)), held, policy) == "-"


def test_whoever_has_a_limit_of_memory_must_say_how_much() -> None:
    policy = Policy(users={str(ADA): {"memory": 6 * GiB}})
    assert turns([ticket(ADA, needed=None)], spaces(slots(8)), [], policy) == "-"


def test_who_could_start_and_does_not_is_passed() -> None:
    stopped, mine = need(8), need(8)
    here = spaces(slots(8))

    waiting = whose_turn(mine, [stopped, mine], here, [], POLICY)
    assert isinstance(waiting, Wait) and list(waiting.starting) == [stopped]
    assert isinstance(whose_turn(mine, [stopped, mine], here, [], POLICY, passed={stopped.id}), Go)


def test_strangers_are_told_apart_from_claims() -> None:
    mine, here = need(6), spaces(slots(8), foreign=4 * GiB)
    waiting = whose_turn(mine, [mine], here, [], POLICY)
    assert isinstance(waiting, Wait) and waiting.for_strangers_only

    waiting = whose_turn(mine, [mine], here, [claim(["cpu:0"], 4 * GiB)], POLICY)
    assert isinstance(waiting, Wait) and not waiting.for_strangers_only


@pytest.mark.slow
def test_a_long_queue_costs_what_it_is_long() -> None:
    """Order, turns and reasons of eight times as many tickets take about eight times as long, and not sixty-four."""
    here, held = spaces(slots(8, 8)), [claim(["cpu:0"], 6 * GiB)]

    def look_at(count: int) -> float:
        tickets = [need(1 + number % 7, uid=ADA + number % 40, since=number) for number in range(count)]
        began = time.process_time()  # others compute, too
        queue = fair_order(tickets, {}, POLICY)
        for place, (mine, turn) in enumerate(zip(queue, everyones_turn(queue, here, held, POLICY), strict=True), 1):
            if isinstance(turn, Wait):
                explain(mine, queue, turn, here, held, reader=ADA, position=place)
        return time.process_time() - began

    short, long = (min(look_at(count) for _ in range(3)) for count in (500, 4000))
    assert long < 24 * short


sizes = st.one_of(st.integers(1, 10), st.none())
asked = st.lists(st.tuples(sizes, st.booleans()), min_size=1, max_size=5)


@pytest.mark.slow
@settings(max_examples=100)
@given(asked, st.lists(st.tuples(st.integers(0, 1), st.integers(1, 6)), max_size=4), st.randoms(use_true_random=False))
def test_a_wait_never_depends_on_who_came_later(
    asked: list[tuple[int | None, bool]], held: list[tuple[int, int]], random: Any
) -> None:
    """Claims end one after the other; whoever may start does, and never ends. Now once more without the last ticket."""
    queue = [need(size, gpu="cpu:1" if second else "cpu:0") for size, second in asked]
    claims: list[Claim] = []
    for device, size in held:
        if sum(c.hold.bytes for c in claims if c.hold.devices == (f"cpu:{device}",)) + size * GiB <= 10 * GiB:
            claims.append(claim([f"cpu:{device}"], size * GiB))
    ends = random.sample(claims, len(claims))

    with_last, without = _history(queue, claims, ends), _history(queue[:-1], claims, ends)

    assert [started - {queue[-1].id} for started in with_last] == without


def _history(queue: list[Ticket], claims: list[Claim], ends: list[Claim]) -> list[set[str]]:
    """Who has started after each end of a claim."""
    here, waiting, started, history = spaces(slots(10, 10)), list(queue), set[str](), []
    claims = list(claims)
    for end in [None, *ends]:
        claims = [claim for claim in claims if claim is not end]
        while going := [
            (ticket, turn.placement)
            for ticket, turn in zip(waiting, everyones_turn(waiting, here, claims, POLICY), strict=True)
            if isinstance(turn, Go)
        ]:
            ticket, placement = going[-1]  # who may start need not wait for each other
            held = claim([device.uuid for device in placement.devices], placement.bytes, alone=placement.alone)
            claims.append(replace(held, id=f"c{ticket.id}"))
            waiting.remove(ticket)
            started.add(ticket.id)
        history.append(set(started))
        for uuid in ("cpu:0", "cpu:1"):
            holds = [claim.hold for claim in claims if uuid in claim.hold.devices]
            assert sum(hold.bytes for hold in holds) <= 10 * GiB
            assert len(holds) == 1 or not any(hold.alone for hold in holds)
    return history


def test_a_job_that_takes_as_many_as_are_free_keeps_to_its_user_s_limits() -> None:
    mine = ticket(ADA, needed=2 * GiB, count=1, most=4)
    free = spaces(slots(8, 8, 8, 8))
    for limits, expected in (({}, 4), ({"devices": 2}, 2), ({"memory": 7 * GiB}, 3)):
        decision = whose_turn(mine, [mine], free, [], Policy(default=limits))
        assert isinstance(decision, Go) and len(decision.placement.devices) == expected, limits
