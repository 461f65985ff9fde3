"""Who has more devices than they need gives some to who waits: as few as it takes, and never in vain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.quanta import Holding
from jupyter_gpufit.lab.record import Claim, Ticket
from jupyter_gpufit.lab.standing import Standing
from jupyter_gpufit.lab.surplus import given_back, to_be_had
from jupyter_gpufit.lab.turn import Go, everyones_turn
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, BOB, EVE, claim, request, slots, spaces, ticket
from tests.work import calls_of

FOUR = spaces(slots(8, 8, 8, 8))
ALL = ("cpu:0", "cpu:1", "cpu:2", "cpu:3")


def lab(
    queue: Sequence[Ticket],
    claims: Sequence[Claim],
    standings: Mapping[str, Standing] | None = None,
    policy: Policy | None = None,
    here: Sequence[Space] = FOUR,
) -> Holding:
    gives = {one.id: Standing(gives=True) for one in claims} | dict(standings or {})
    return Holding(queue=queue, spaces=here, claims=claims, policy=policy or Policy(), used={}, standings=gives)


def kept(lab: Holding) -> dict[str, tuple[str, ...]]:
    return {id: still.devices for id, still in given_back(lab).items()}


def elastic(devices: Sequence[str], uid: int = ADA, least: int = 1, **more: Any) -> Claim:
    return claim(devices, 8 * GiB, uid, count=least, most=4, **more)


def test_one_device_goes_to_one_who_waits_and_two_to_one_who_wants_two() -> None:
    held = elastic(ALL)
    assert kept(lab([], [held])) == {}
    assert kept(lab([ticket(BOB, needed=8 * GiB)], [held])) == {held.id: ALL[:3]}
    assert kept(lab([ticket(BOB, needed=8 * GiB, count=2)], [held])) == {held.id: ALL[:2]}
    assert kept(lab([ticket(BOB, needed=8 * GiB), ticket(EVE, needed=8 * GiB)], [held])) == {held.id: ALL[:2]}
    assert kept(lab([ticket(ADA, needed=8 * GiB)], [held])) == {held.id: ALL[:3]}, "also to one's own next job"


def test_a_device_that_is_named_is_the_one_that_is_given() -> None:
    held = elastic(ALL)
    assert kept(lab([ticket(BOB, needed=8 * GiB, gpu="cpu:1")], [held])) == {held.id: ("cpu:0", "cpu:2", "cpu:3")}


def test_nobody_gives_below_the_least_nor_in_vain_nor_who_does_not_say_so() -> None:
    held = elastic(ALL, least=3)
    assert kept(lab([ticket(BOB, needed=8 * GiB, count=2)], [held])) == {}
    assert kept(lab([ticket(BOB, needed=8 * GiB)], [held])) == {held.id: ALL[:3]}
    assert kept(lab([ticket(BOB, needed=8 * GiB)], [held], {held.id: Standing()})) == {}
    smaller = claim(ALL, 2 * GiB, ADA, count=1, most=4)
    assert kept(lab([ticket(BOB, needed=2 * GiB)], [smaller])) == {}, "there is room beside it"


def test_who_has_most_above_the_least_gives_first() -> None:
    three, one = elastic(ALL[:3]), elastic(ALL[3:], EVE)
    assert kept(lab([ticket(BOB, needed=8 * GiB)], [three, one])) == {three.id: ALL[:2]}
    two, other = elastic(ALL[:2]), elastic(ALL[2:], EVE)
    assert len(kept(lab([ticket(BOB, needed=8 * GiB)], [two, other]))) == 1
    both = kept(lab([ticket(BOB, needed=8 * GiB, count=2)], [two, other]))
    assert both == {two.id: ALL[:1], other.id: ALL[2:3]}


def test_what_is_free_can_be_had_unless_somebody_waits_who_could_use_it() -> None:
    held, wanted = elastic(ALL[:1]), request(8 * GiB, count=1, most=4)
    assert to_be_had(held, wanted, lab([], [held])) == list(ALL[1:])
    other = claim(["cpu:2"], GiB, BOB)
    assert to_be_had(held, wanted, lab([], [held, other])) == ["cpu:1", "cpu:3"]
    assert to_be_had(held, request(gpu="cpu:0,cpu:3"), lab([], [held])) == ["cpu:3"]
    waits = ticket(BOB, needed=8 * GiB, count=4)
    assert to_be_had(held, wanted, lab([waits], [held])) == []
    limited = Policy(default={"devices": 2})
    assert to_be_had(held, wanted, lab([], [held], policy=limited)) == ["cpu:1"]


@given(some.data())
def test_who_gives_lets_somebody_start_and_keeps_the_least(data: some.DataObject) -> None:
    free, claims = list(ALL), list[Claim]()
    for _ in range(data.draw(some.integers(0, 4))):
        if not free:
            break
        mine = [free.pop() for _ in range(data.draw(some.integers(1, len(free))))]
        claims.append(elastic(mine, data.draw(some.sampled_from((ADA, EVE))), data.draw(some.integers(1, len(mine)))))
    queue = [
        ticket(BOB, needed=8 * GiB, count=data.draw(some.integers(1, 3))) for _ in range(data.draw(some.integers(0, 3)))
    ]
    before = lab(queue, claims)
    given = kept(before)
    for one in claims:
        assert one.request.count <= len(given.get(one.id, one.hold.devices)) <= len(one.hold.devices)
    started = [isinstance(decision, Go) for decision in everyones_turn(queue, FOUR, claims, Policy())]
    fewer = [elastic(given.get(one.id, one.hold.devices), one.uid, one.request.count) for one in claims]
    then = [isinstance(decision, Go) for decision in everyones_turn(queue, FOUR, fewer, Policy())]
    assert sum(then) > sum(started) if given else then == started


@pytest.mark.slow(1)
def test_hundreds_who_could_give_are_soon_looked_at() -> None:
    fewer, more = (lab([ticket(BOB, needed=8 * GiB)], [elastic(ALL, EVE) for _ in range(n)]) for n in (100, 200))
    assert len(kept(more)) == 200  # of each device, all have a part
    assert calls_of(lambda: kept(more)) < 5 * calls_of(lambda: kept(fewer))  # it was cubic
