"""When a waiting job may start: a range that holds whatever its holders do, or why there is none."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from jupyter_gpufit.lab.ends import End, EndNote, Forecast, forget_old_ends, read_ends
from jupyter_gpufit.lab.foresee import MOST, TOO_MANY, TurnFacts, foresee
from jupyter_gpufit.lab.foreseen import Foreseen
from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.published import publish, sweep
from jupyter_gpufit.lab.record import Claim, Hold, Ticket
from jupyter_gpufit.lab.standing import Standing
from jupyter_gpufit.lab.turn import Go, everyones_turn
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, BOB, EVE, claim, request, slots, spaces, ticket

NOW = 1_000_000.0


def turns(
    queue: list[Ticket], here: list[Space], claims: list[Claim], ends: dict[str, End], reader: int = EVE
) -> list[str]:
    """In words."""
    found = foresee(queue, here, claims, ends, Policy(), now=NOW, reader=reader)
    return [one.sentence(NOW) if one else "about to start" for one in found]


def end(earliest: float, latest: float) -> End:
    return End(NOW + earliest, NOW + latest)


def test_the_first_starts_when_a_holder_expects_to_end() -> None:
    held = claim(["cpu:0"], 4 * GiB)
    assert turns([ticket()], spaces(slots(4)), [held], {held.id: end(300, 480)}) == ["starts in 5 min to 8 min"]
    assert turns([ticket()], spaces(slots(4)), [held], {held.id: end(0, 40)}) == ["starts within 40 s"]
    assert turns([ticket()], spaces(slots(4)), [], {}) == ["about to start"]


def test_whoever_ends_first_makes_room() -> None:
    held = [claim(["cpu:0"], 4 * GiB), claim(["cpu:1"], 4 * GiB)]
    known = {held[0].id: end(600, 700), held[1].id: end(100, 200)}
    assert turns([ticket(), ticket()], spaces(slots(4, 4)), held, known) == [
        "starts in 1 min 40 s to 3 min 20 s",
        "starts in 1 min 40 s to 12 min",
    ]
    assert turns([ticket(), ticket()], spaces(slots(4)), held[:1], known)[1] == (
        "starts in 10 min at the earliest: uid 61001's bert comes first and has not begun"
    )
    # A share that is given back leaves room for two.
    assert turns([ticket(needed=GiB), ticket(needed=GiB)], spaces(slots(4, 4)), held, known)[1] == (
        "starts in 1 min 40 s to 3 min 20 s"
    )


def test_who_wants_all_waits_for_the_last() -> None:
    held = [claim(["cpu:0"], GiB), claim(["cpu:0"], GiB)]
    known = {held[0].id: end(10, 20), held[1].id: end(50, 90)}
    assert turns([ticket(needed=None)], spaces(slots(4)), held, known) == ["starts in 50 s to 1 min 30 s"]


def test_what_nobody_knows_is_said() -> None:
    held = claim(["cpu:0"], 4 * GiB, BOB, name="gan")
    here = spaces(slots(4))
    assert turns([ticket()], here, [held], {}) == ["start not known: uid 61002's gan does not say how long it runs"]
    assert turns([ticket()], here, [held], {}, reader=BOB)[0].endswith("your gan does not say how long it runs")
    assert turns([ticket()], here, [held], {held.id: end(-90, -30)}) == [
        "start not known: uid 61002's gan runs longer than it expected"
    ]
    assert turns([ticket()], spaces(slots(4), foreign=GiB), [], {}) == [
        "start not known: processes outside the lab do not say when they end"
    ]
    # One that runs longer than it expected could end this moment: the other one is known.
    other = claim(["cpu:1"], 4 * GiB)
    known = {held.id: end(-90, -30), other.id: end(60, 120)}
    assert turns([ticket()], spaces(slots(4, 4)), [held, other], known) == ["starts within 2 min"]


def test_with_turns_a_holder_that_knows_no_end_leaves_and_who_leaves_comes_back_later() -> None:
    policy = Policy(default={"quantum": 600.0}, notice=60.0)
    since = int(NOW) - 300
    held, mine, other = claim(["cpu:0"], 4 * GiB, BOB, since), ticket(EVE), ticket(ADA)

    def said(turns: TurnFacts | None, policy: Policy = policy) -> list[str]:
        found = foresee([mine, other], spaces(slots(4)), [held], {}, policy, now=NOW, reader=EVE, turns=turns)
        return [one.sentence(NOW) if one else "" for one in found]

    known = TurnFacts({BOB: 900.0}, {held.id: Standing()})
    assert said(known) == ["starts within 5 min 30 s", "starts within 16 min"]
    assert all("does not say how long it runs" in one or "has not begun" in one for one in said(None))
    assert all("not known" in one for one in said(known, Policy())), "without a quantum nobody leaves"
    stays = TurnFacts({BOB: 900.0}, {held.id: Standing(yields=False)})
    assert "does not say how long it runs" in said(stays)[0]
    leaving = TurnFacts({BOB: 900.0}, {held.id: Standing(leaves=NOW + 20)})
    assert said(leaving)[0] == "starts within 50 s", "it has said so, and a save takes its time"


def test_those_far_behind_are_not_foreseen() -> None:
    queue = [ticket() for _ in range(MOST + 1)]
    assert turns(queue, spaces(slots(4)), [claim(["cpu:0"], GiB)], {})[-1].endswith(TOO_MANY)


def test_a_line_that_stays_says_the_time_of_day() -> None:
    said = Foreseen(NOW + 60, NOW + 3600).clock(NOW)
    assert said.startswith("starts between ") and said.count(":") == 2
    assert Foreseen(NOW + 60, NOW + 61).clock(NOW).startswith("starts at about ")
    assert len(Foreseen(NOW + 60, NOW + 300_000).clock(NOW).split()) == 6  # with the day of the week


def test_news_are_what_changes_an_expectation_by_much() -> None:
    said = Foreseen(NOW + 60, NOW + 3600)
    assert not Foreseen(NOW + 90, NOW + 3900).is_news(said, NOW)
    assert Foreseen(NOW + 60, NOW + 7200).is_news(said, NOW)
    assert Foreseen(NOW + 60, None, "why").is_news(said, NOW)
    assert said.is_news(None, NOW)


def test_queues_played_with_true_ends_start_within_their_ranges() -> None:
    """Holders end somewhere in their ranges, those that start run for however long; nobody comes later.

    Not all do: who starts earlier than expected may take another device, and be longer in somebody's way there.
    """
    outside = ranges = 0
    for seed in range(200):
        missed, said = _outside(random.Random(seed))
        outside, ranges = outside + missed, ranges + said
    assert ranges > 300
    assert outside <= ranges / 100


def _outside(chance: random.Random) -> tuple[int, int]:
    """In a queue made by chance: how many start outside of the range that was said for them, and how many ranges."""
    here = spaces(slots(*chance.choices([4, 8], k=chance.randint(1, 3))))
    queue = [ticket(chance.choice([ADA, BOB]), needed=chance.choice([GiB, 2 * GiB, 4 * GiB])) for _ in range(5)]
    held, free = [], {space.device.uuid: space.device.total for space in here}
    for _ in range(8):
        uuid, size = chance.choice([*free]), chance.choice([GiB, 2 * GiB, 4 * GiB])
        if free[uuid] >= size:
            free[uuid] -= size
            held.append(claim([uuid], size))
    known, true = {}, {}
    for one in held:
        early = chance.uniform(0, 500)
        known[one.id] = end(early, early + chance.uniform(0, 300))
        true[one.id] = chance.uniform(known[one.id].earliest, known[one.id].latest)
    found = foresee(queue, here, held, known, Policy(), now=NOW, reader=EVE)
    started = _played(queue, here, held, true, chance)
    assert all(one.latest or one.why_not for one in found if one)
    assert all(started[mine.id] == NOW for mine, one in zip(queue, found, strict=True) if one is None)
    said = [(one.earliest, started[mine.id], one.latest) for mine, one in zip(queue, found, strict=True) if one]
    known_ones = [(early, true, late) for early, true, late in said if late is not None]
    return sum(not early <= true <= late for early, true, late in known_ones), len(known_ones)


def _played(
    queue: list[Ticket], here: list[Space], held: list[Claim], ends: dict[str, float], chance: random.Random
) -> dict[str, float]:
    now, claims, waiting, started, ends = NOW, {one.id: one for one in held}, list(queue), {}, dict(ends)
    while waiting:
        for one, turn in zip(waiting, everyones_turn(waiting, here, [*claims.values()], Policy()), strict=True):
            if isinstance(turn, Go):
                started[one.id], ends[one.id] = now, now + chance.uniform(1, 1000)
                devices = tuple(device.uuid for device in turn.placement.devices)
                hold = Hold(devices=devices, bytes=turn.placement.bytes, alone=turn.placement.alone)
                claims[one.id] = Claim(**vars(one), hold=hold)
        waiting = [one for one in waiting if one.id not in started]
        if waiting:
            id = min(claims, key=lambda id: ends[id])
            now = ends[id]
            del claims[id]
    return started


def test_a_steady_pace_is_foreseen_closely_and_an_uneven_one_widely() -> None:
    steady, uneven = Forecast(), Forecast()
    for second in range(60):
        one = steady.take(NOW + second, 600.0 - second)
        other = uneven.take(NOW + second, (600.0 - second) * (1.5 if second % 20 < 10 else 1.0))
        assert (one is None) == (second < 4)
    assert one is not None and other is not None
    assert one.earliest <= NOW + 600 <= one.latest and one.latest - one.earliest < 0.6 * 540
    assert other.latest - other.earliest > one.latest - one.earliest + 200


def test_a_note_is_read_as_long_as_its_claim_counts(tmp_path: Path) -> None:

    lab = tmp_path
    mine = publish(lab, request(), Hold(devices=("cpu:0",), bytes=GiB, alone=False))
    value = mine.as_claim(request(), Hold(devices=("cpu:0",), bytes=GiB, alone=False))
    note = EndNote(lab, value.id)
    note.tell(end(60, 90), NOW)
    assert read_ends(lab, [value]) == {value.id: end(60, 90)}
    note.tell(end(60.1, 90.1), NOW)  # no news
    assert read_ends(lab, [value]) == {value.id: end(60, 90)}
    note.tell(end(100, 190), NOW)
    assert read_ends(lab, [value]) == {value.id: end(100, 190)}
    other = EndNote(lab, claim(["cpu:0"], GiB).id)
    other.tell(end(60, 90), NOW)
    assert read_ends(lab, [value]).keys() == {value.id}
    forget_old_ends(lab)
    assert len([*lab.glob("e.*")]) == 1  # of the other's claim, nothing is there
    mine.drop()
    sweep(lab)
    forget_old_ends(lab)
    assert [*lab.glob("e.*")] == []


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"nonsense", b'{"claim": 3}', b'{"claim": "c", "earliest": NaN, "latest": 3}', b"\xff" * 300]
)
def test_a_note_that_cannot_be_read_says_nothing(text: bytes, tmp_path: Path) -> None:

    lab = tmp_path
    mine = claim(["cpu:0"], GiB, os.geteuid())
    note = EndNote(lab, mine.id)
    note.tell(end(60, 90), NOW)
    [path] = lab.glob("e.*")
    path.write_bytes(text)
    assert read_ends(lab, [mine]) == {}
    path.unlink()
    os.mkfifo(path)
    assert read_ends(lab, [mine]) == {}
