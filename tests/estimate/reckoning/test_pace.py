from __future__ import annotations

from jupyter_gpufit.devices.cards import find_card
from jupyter_gpufit.estimate.reckoning.pace import Pace
from jupyter_gpufit.units import MiB

A100 = find_card("NVIDIA A100-SXM4-40GB").rates


def pace(seconds_per_step: float, *, flops: int | None = None, steps: int = 100) -> Pace:
    found = Pace(flops, A100 if flops else {})
    for step in range(steps):
        found.take(step * seconds_per_step, step)
    return found


def test_says_nothing_before_there_are_a_few_steps() -> None:
    assert pace(1.0, steps=1).words() == ""
    assert pace(1.0, steps=3).words() == ""


def test_says_steps_a_second_or_seconds_a_step() -> None:
    assert pace(0.5).words() == "2.0 steps/s"
    assert pace(4.0).words() == "4.0 s/step"


def test_says_the_share_of_the_cards_arithmetic() -> None:
    assert pace(0.5, flops=78_000_000_000_000).words() == "2.0 steps/s, MFU 50 %"


def test_says_what_was_foreseen_beside_it() -> None:
    found = pace(0.5, flops=78_000_000_000_000)
    found.foreseen = 0.4

    assert found.mfu_foreseen is not None and round(found.mfu_foreseen, 3) == 0.625
    assert found.words() == "2.0 steps/s, MFU 50 % (62 % foreseen)"
    assert Pace(foreseen=0.4).mfu_foreseen is None


def test_forgets_what_was_long_ago() -> None:
    found = Pace()
    for now, step in ((0, 0), (1000, 1), (1010, 21), (1020, 41)):
        found.take(now, step)

    assert found.steps_per_second == 2.0


def test_says_what_crosses_the_link_of_a_plan() -> None:
    found = Pace()
    for step in range(10):
        found.take(step / 2, step, step * 100 * MiB)

    assert found.link == 200 * MiB
    assert found.words() == "2.0 steps/s, 200.0 MiB/s to the host and back"
