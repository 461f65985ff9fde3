"""What rewriting a library's functions may cost, and which of them are called as they are after all."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpufit.program.libraries.gain import ENOUGH, FREE, SHARE, SHORT, Gain, LeftShare


class Clock:
    """Seconds of the day and of the processor, as they are set."""

    def __init__(self) -> None:
        self.day = self.processor = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr("jupyter_gpufit.program.libraries.gain.time.monotonic", lambda: found.day)
    monkeypatch.setattr("jupyter_gpufit.program.libraries.gain.time.thread_time", lambda: found.processor)
    return found


def rewrite(gain: Gain, clock: Clock, package: str, seconds: float) -> None:
    with gain.rewriting(package):
        clock.processor += seconds
        clock.day += seconds


def left_share() -> LeftShare:
    unread: Any = None  # whose text it is does not matter here
    return LeftShare(unread, unread)


def test_a_package_affords_a_second_at_first_and_a_share_of_the_cells_time_then(clock: Clock) -> None:
    gain = Gain()
    assert gain.affords("slow")

    rewrite(gain, clock, "slow", FREE + 0.5)
    assert not gain.affords("slow") and gain.affords("another")

    clock.day += 0.5 / SHARE
    assert gain.affords("slow")


def test_what_rewriting_takes_is_no_time_of_the_cells(clock: Clock) -> None:
    gain = Gain()
    clock.day += 10
    rewrite(gain, clock, "slow", 3.0)

    assert gain.clock() == pytest.approx(10.0)


def test_what_fails_while_it_is_rewritten_has_cost_its_time_too(clock: Clock) -> None:
    gain = Gain()
    with pytest.raises(SyntaxError), gain.rewriting("odd"):
        clock.processor += FREE + 1
        raise SyntaxError

    assert not gain.affords("odd")


def test_a_function_whose_calls_are_short_is_called_as_it_is_once_enough_of_them_tell() -> None:
    gain, one = Gain(), left_share()
    for _ in range(ENOUGH - 1):
        gain.took(one, SHORT / 10)
    assert not one.is_short

    gain.took(one, SHORT / 10)
    assert one.is_short

    gain.took(one, 60.0)  # it has turned out to be long all the same
    assert not one.is_short


def test_a_long_call_is_never_short() -> None:
    gain, one = Gain(), left_share()
    for _ in range(2 * ENOUGH):
        gain.took(one, 2 * SHORT)

    assert not one.is_short
