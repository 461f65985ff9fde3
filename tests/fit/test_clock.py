"""How long a step is said to take: operations and copies go side by side, and who needs a copy waits for its end."""

from __future__ import annotations

import pytest

from jupyter_gpufit.devices.speeds import DeviceSpeed
from jupyter_gpufit.fit.clock import StepClock

SPEED = DeviceSpeed(flops=100.0, memory=10.0, link=5.0, operation=0.5, exchange=2.0, meeting=0.25)


def test_an_operation_takes_as_long_as_what_it_has_most_of() -> None:
    clock = StepClock(SPEED)

    clock.compute(flops=400, nbytes=10)
    assert clock.now == 4 + 0.5
    clock.compute(flops=100, nbytes=30)
    assert clock.now == 4.5 + 3 + 0.5


def test_a_copy_takes_no_time_of_a_step_that_computes_as_long() -> None:
    clock = StepClock(SPEED)

    done = clock.out(20)
    clock.compute(flops=350, nbytes=0)
    clock.wait(done)
    assert (done, clock.now, clock.waited) == (4, 4, 0)

    clock.wait(clock.out(10))
    assert (clock.now, clock.waited, clock.sent) == (6, 2, 30)


def test_each_direction_has_a_link_and_on_one_link_a_copy_follows_the_other() -> None:
    clock = StepClock(SPEED)

    assert [clock.out(10), clock.out(10), clock.back(5)] == [2, 4, 1]
    clock.compute(flops=950, nbytes=0)
    assert clock.out(5) == 10 + 1  # not before it is asked for


def test_what_comes_back_waits_for_what_has_to_go_first() -> None:
    clock = StepClock(SPEED)

    gone = clock.out(25)
    assert clock.back(10, after=[gone]) == pytest.approx(gone + 2)
    assert clock.fetched == 10 and clock.now == 0


def test_several_devices_meet_for_the_time_of_their_exchange() -> None:
    clock = StepClock(SPEED)

    clock.meet(4)
    assert clock.now == 2 + 0.25
