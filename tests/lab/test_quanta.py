"""Whose turn is over: never somebody's for nothing, and never of one who has used less than who waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.lab.order import fair_order, used_by_user
from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.quanta import PATIENCE, Holding, turns_over
from jupyter_gpufit.lab.record import Claim, Ticket
from jupyter_gpufit.lab.standing import Standing
from jupyter_gpufit.lab.turn import Go, everyones_turn
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, BOB, EVE, claim, slots, spaces, ticket
from tests.work import calls_of

TEN = Policy(default={"quantum": 600.0}, entry_penalty=60.0)
WILLING = Standing()


def over(
    queue: Sequence[Ticket],
    claims: Sequence[Claim],
    now: float,
    *,
    here: Sequence[Space] | None = None,
    policy: Policy = TEN,
    past: Mapping[int, float] | None = None,
    standings: Mapping[str, Standing] | None = None,
) -> list[Claim]:
    """Those of the claims whose turn is over, where nobody has said anything else."""
    return [one for one in claims if one.id in turns_over(_lab(queue, claims, now, here, policy, past, standings), now)]


def _lab(
    queue: Sequence[Ticket],
    claims: Sequence[Claim],
    now: float,
    here: Sequence[Space] | None,
    policy: Policy,
    past: Mapping[int, float] | None,
    standings: Mapping[str, Standing] | None,
) -> Holding:
    used = used_by_user(claims, past or {}, policy, now=now)
    return Holding(
        queue=fair_order(queue, used, policy),
        spaces=here or spaces(slots(8, 8)),
        claims=claims,
        policy=policy,
        used=used,
        standings={one.id: WILLING for one in claims} | dict(standings or {}),
    )


def whole(device: str, uid: int, since: int = 0, **more: Any) -> Claim:
    return claim([device], 8 * GiB, uid, since, **more)


def test_who_waits_gets_a_turn_when_a_quantum_is_over_and_not_before() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", BOB, 100)]
    assert over([ticket(EVE, needed=8 * GiB)], held, 599) == []
    assert over([ticket(EVE, needed=8 * GiB)], held, 600) == [held[0]]
    assert over([], held, 9999) == []
    assert over([ticket(EVE, needed=8 * GiB)], held, 9999, policy=Policy()) == []


def test_one_leaves_for_one_and_it_is_who_used_most() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", BOB)]
    waits = [ticket(EVE, needed=8 * GiB)]
    assert over(waits, held, 700, past={BOB: 50}) == [held[1]]
    assert over(waits, held, 700, past={BOB: 50}, standings={held[0].id: Standing(leaves=710)}) == [held[0]]
    assert over([*waits, ticket(EVE, needed=8 * GiB)], held, 700, past={BOB: 50}) == held


def test_nobody_leaves_for_their_own_job_nor_for_one_who_used_more() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", ADA)]
    assert over([ticket(ADA, needed=8 * GiB)], held, 700) == []
    assert over([ticket(EVE, needed=8 * GiB)], held, 700, past={EVE: 9999}) == []
    before = Policy(default={"quantum": 600.0}, users={str(EVE): {"priority": 1}})
    assert len(over([ticket(EVE, needed=8 * GiB)], held, 700, past={EVE: 9999}, policy=before)) == 1


def test_nobody_leaves_where_that_would_not_be_enough() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", BOB, 500)]
    assert over([ticket(EVE, needed=None, count=2)], held, 700) == []
    assert over([ticket(EVE, needed=None, count=2)], held, 1100) == held


def test_who_cannot_or_does_not_leave_is_not_counted_on() -> None:
    held, waits = [whole("cpu:0", ADA), whole("cpu:1", BOB, 10)], [ticket(EVE, needed=8 * GiB)]
    assert over(waits, held, 700, standings={held[0].id: Standing(yields=False)}) == [held[1]]
    late = Standing(leaves=650)
    assert over(waits, held, 651 + PATIENCE, standings={held[0].id: late}) == [held[1]]


def test_who_is_stopped_hears_of_no_turn_and_another_one_leaves() -> None:
    held, waits = [whole("cpu:0", ADA), whole("cpu:1", BOB, 10)], [ticket(EVE, needed=8 * GiB)]
    lab = _lab(waits, held, 700, None, TEN, None, None)
    assert turns_over(lab, 700).keys() == {held[0].id}
    assert turns_over(replace(lab, stopped={held[0].id}), 700).keys() == {held[1].id}


def test_jobs_of_one_user_share_a_quantum() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", ADA)]
    assert over([ticket(EVE, needed=8 * GiB)], held, 299) == []
    assert over([ticket(EVE, needed=8 * GiB)], held, 301) == held[:1], "one is enough, and the other has its time again"
    many = [claim(["cpu:0"], GiB, ADA) for _ in range(8)]
    assert over([ticket(EVE, needed=GiB)], many, 149, here=spaces(slots(8))) == []
    assert len(over([ticket(EVE, needed=GiB)], many, 151, here=spaces(slots(8)))) == 1


def test_a_claim_in_the_place_of_another_does_not_begin_a_turn_anew() -> None:
    smaller = whole("cpu:0", ADA, 500)
    smaller = replace(smaller, hold=replace(smaller.hold, began=int(1e9)))
    assert over([ticket(EVE, needed=8 * GiB)], [smaller, whole("cpu:1", BOB, 500)], 650) == [smaller]
    lies = replace(smaller, hold=replace(smaller.hold, began=int(900e9)))
    assert lies.began == lies.since, "nobody can have begun after the kernel saw the claim"


def test_hours_that_are_used_up_end_no_turn_by_themselves_and_start_no_other() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", ADA)]
    spent = replace(_lab([ticket(ADA, needed=8 * GiB)], held, 9999, None, TEN, None, None), barred={ADA: "40 hours"})
    assert turns_over(spent, 9999) == {}
    others = replace(spent, queue=[ticket(ADA, needed=8 * GiB), ticket(EVE, needed=8 * GiB)])
    assert len(turns_over(others, 9999)) == 1, "and her next turn waits until days go by"


def test_what_is_drained_leaves_though_nobody_waits() -> None:
    held = [whole("cpu:0", ADA), whole("cpu:1", BOB)]
    policy = replace(Policy(), drained=("cpu:1",))
    assert over([], held, 1, policy=policy) == [held[1]]
    assert over([], held, 1, policy=policy, standings={held[1].id: Standing(yields=False)}) == []


users = st.sampled_from([ADA, BOB, EVE])
sizes = st.sampled_from([1, 2, 4, 8])


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.lists(st.tuples(users, sizes, st.integers(0, 900)), max_size=4),
    st.lists(
        st.tuples(users, sizes, st.sampled_from(["cpu:0", "cpu:1"]), st.integers(0, 900), st.booleans()), max_size=5
    ),
    st.dictionaries(users, st.integers(0, 2000)),
)
def test_each_who_leaves_lets_somebody_start_who_has_used_less(
    waiting: list[tuple[int, int, int]], held: list[tuple[int, int, str, int, bool]], past: dict[int, float]
) -> None:
    queue = [ticket(uid, since, size * GiB) for uid, size, since in waiting]
    claims: list[Claim] = []
    for uid, size, device, since, _ in held:
        if sum(one.hold.bytes for one in claims if device in one.hold.devices) + size * GiB <= 8 * GiB:
            claims.append(claim([device], size * GiB, uid, since))
    standings = {one.id: Standing(yields=yields) for one, (*_, yields) in zip(claims, held, strict=False)}
    lab = _lab(queue, claims, 1000, None, TEN, past, standings)
    found = turns_over(lab, 1000)
    assert found == turns_over(replace(lab, claims=list(claims)), 1000)
    stay = [one for one in claims if one.id not in found]
    starting = {
        one.id
        for one, turn in zip(lab.queue, everyones_turn(lab.queue, lab.spaces, stay, TEN), strict=True)
        if isinstance(turn, Go)
    }
    for one in claims:
        if one.id in found:
            ticket_ = found[one.id].ticket
            assert ticket_ is not None and ticket_.id in starting and ticket_.uid != one.uid
            mine = sum(other.uid == one.uid for other in claims)
            assert standings[one.id].yields and 1000 - one.since / 1e9 >= 600 / min(mine, 4)
            assert round(lab.used.get(ticket_.uid, 0)) <= round(lab.used[one.uid])


def test_hundreds_of_claims_are_soon_looked_at() -> None:
    """By each training whose turn is over, in the thread that answers its user."""

    def held_by(eves: int) -> Holding:
        claims = [claim(["cpu:0", "cpu:1"], 1, EVE) for _ in range(eves)]
        return _lab([ticket(BOB, needed=None)], claims, 600, None, TEN, None, None)  # who waits wants a device alone

    fewer, more = held_by(100), held_by(400)
    assert len(turns_over(more, 600)) == 400
    assert calls_of(lambda: turns_over(more, 600)) < 6 * calls_of(lambda: turns_over(fewer, 600))  # it was cubic
