"""The reasons for waiting, in words."""

from __future__ import annotations

import time
from dataclasses import replace

from jupyter_gpufit.devices.device import Process
from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.reasons import Holder, Waiting, explain, ordinal, wants
from jupyter_gpufit.lab.record import Claim, Ticket
from jupyter_gpufit.lab.turn import Wait, whose_turn
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB
from tests.lab.values import ADA, BOB, EVE, claim, request, slots, spaces, ticket


def why(queue: list[Ticket], here: list[Space], claims: list[Claim], reader: int = EVE) -> Waiting:
    """Why the last one of the queue waits, as somebody reads it."""
    decision = whose_turn(queue[-1], queue, here, claims, Policy())
    assert isinstance(decision, Wait)
    return explain(queue[-1], queue, decision, here, claims, reader=reader)


def test_a_line_that_stays_tells_since_when_and_not_for_how_long() -> None:
    now = time.mktime((2026, 3, 4, 12, 30, 0, 0, 0, -1))
    holder = Holder("ada's", "bert", "GPU 1", 4 * GiB, since=now - 180)
    waiting = Waiting(1, 1, "held", holders=(holder,))

    assert waiting.sentence(now) == "ada's bert has held GPU 1 (4.0 GiB) for 3 min; you are 1st of 1"
    assert waiting.sentence(now, stays=True) == "ada's bert has held GPU 1 (4.0 GiB) since 12:27; you are 1st of 1"


def test_holders_are_named_with_what_they_have_and_for_how_long() -> None:
    held = [claim(["cpu:0"], 4 * GiB, BOB, since=1000)]
    waiting = why([ticket(ADA, needed=2 * GiB), ticket(ADA)], spaces(slots(4)), held)
    assert waiting.sentence(1180) == (
        f"uid {BOB}'s bert has held cpu:0 (4.0 GiB) for 3 min; you are 2nd of 2; the next in line waits for 2.0 GiB"
    )
    assert waiting == why([ticket(ADA, needed=2 * GiB), ticket(ADA)], spaces(slots(4)), held)  # time is no new reason


def test_ones_own_jobs_are_told_apart_from_others() -> None:
    own = claim(["cpu:0"], 4 * GiB, ADA, name="night-run", label="/home/ada/letters.ipynb")
    run = claim(["cpu:1"], 4 * GiB, ADA, name="night-run", label="python train.py --epochs 100 --lr 0.1")
    queue, here = [ticket(ADA)], spaces(slots(4, 4))
    assert [holder.sentence(0) for holder in why(queue, here, [own, run], reader=ADA).holders] == [
        "your night-run (letters.ipynb) holds cpu:0 (4.0 GiB)",
        "your night-run (python train.py --epochs 100 …) holds cpu:1 (4.0 GiB)",
    ]
    # To somebody else, who reads the same list of the queue, they are Ada's.
    assert f"uid {ADA}'s night-run holds cpu:0" in str(why(queue, here, [own, run], reader=BOB))


def test_ones_own_tickets_are_told_apart_from_others() -> None:
    queue, here = [ticket(ADA, name="resnet"), ticket(BOB)], spaces(slots(4))
    assert "your resnet comes first" in str(why(queue, here, [], reader=ADA))
    held = [claim(["cpu:0"], 2 * GiB)]
    kept = [ticket(ADA, needed=None), ticket(BOB, needed=GiB)]
    assert "there is room, but your bert came first" in str(why(kept, here, held, reader=ADA))


def test_many_holders_are_counted() -> None:
    held = [claim([f"cpu:{i}"], 4 * GiB) for i in range(5)]
    waiting = why([ticket()], spaces(slots(4, 4, 4, 4, 4)), held)
    assert len(waiting.holders) == 3
    assert "2 others hold part of it, too; you are 1st of 1" in str(waiting)


def test_only_holders_of_what_one_could_use_are_named() -> None:
    held = [claim(["cpu:0"], 4 * GiB), claim(["cpu:1"], 8 * GiB, alone=True, since=1)]
    waiting = why([ticket(needed=6 * GiB)], spaces(slots(4, 8)), held)
    assert [holder.device for holder in waiting.holders] == ["cpu:1"]
    assert "has held cpu:1 (all of it)" in str(waiting)


def test_whoever_is_about_to_start_is_named() -> None:
    waiting = why([ticket(ADA, name="resnet"), ticket(BOB)], spaces(slots(4)), [])
    assert waiting.why == "turn"
    assert f"uid {ADA}'s resnet comes first and is about to start; you are 2nd of 2" in str(waiting)


def test_room_kept_for_those_before_is_explained() -> None:
    held = [claim(["cpu:0"], 2 * GiB)]
    waiting = why([ticket(ADA, needed=None), ticket(BOB, needed=GiB)], spaces(slots(4)), held)
    assert f"there is room, but uid {ADA}'s bert came first and may need it" in str(waiting)
    assert str(waiting).endswith("you are 2nd of 2; the next in line waits for a whole device")


def test_strangers_are_named_with_their_process() -> None:
    eve = Process(77, "eve", 60 * GiB, started=100.0)
    here = [Space(fake_device(), 60 * GiB, (eve, Process(78, "eve", None)))]
    waiting = why([ticket(needed=40 * GiB)], here, [])
    assert waiting.sentence(3700) == (
        "eve's process 77 has held GPU 0 (60.0 GiB) for 1 h; eve's process 78 holds GPU 0 (some memory); outside the"
        " lab;"
        " you are 1st of 1"
    )


def test_wishes_read_as_people_write_them() -> None:
    assert wants(request(None, count=2)) == "2 whole devices"
    assert wants(request(GiB, count=2)) == "1.0 GiB on each of 2 devices"
    assert wants(request(GiB, exclusive=True)) == "1.0 GiB, without neighbours"
    assert wants(request(GiB, host=2 * GiB)) == "1.0 GiB, and 2.0 GiB of the host's memory"
    assert [ordinal(n) for n in (1, 2, 3, 4, 11, 12, 21, 101, 111)] == [
        "1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "101st", "111th",
    ]  # fmt: skip


def test_out_of_the_queue_there_is_no_position() -> None:
    assert Waiting(0, 0, "trouble", remark="the mutex is missing").sentence(0) == "the mutex is missing"
    waiting = Waiting(2, 3, "held", head="4.0 GiB")
    assert waiting.sentence(0) == "you are 2nd of 3; the next in line waits for 4.0 GiB"
    assert replace(waiting, position=1).sentence(0) == "you are 1st of 3"
