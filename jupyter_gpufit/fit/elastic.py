"""On how many devices a training goes on: pure, from what its own steps took to a number, or to none.

What was measured on a number counts. For a number on which it has not run yet the time follows from the nearest ones
on which it has: where a second device brought nothing, nothing is expected of a third.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

SERIAL = 0.1  # of a step, that more devices do not make shorter, as long as nothing is known
LEAST_GAIN = 1.1  # times as fast: for less nothing is changed
WORTH = 2.0  # times the cost of a change, that it must save
MOST_SPENT = 0.2  # of its time, that a training spends by changes of its own
AS_GOOD = 1.05  # times the time of the best number: the fewest devices of those are taken


@dataclass(frozen=True)
class Underway:
    """Where a training stands when it is decided again."""

    devices: int
    seconds: Mapping[int, float]  # that a step takes, by the number of devices, as measured; this one's among them
    left: float  # seconds that it goes on for, as it runs now
    cost: float  # seconds, of a change
    stayed: float = float("inf")  # seconds, since the last one


@dataclass(frozen=True)
class BetterNumber:
    """To another number of devices."""

    devices: int
    faster: float  # times, as predicted
    saves: float  # seconds


def seconds_with(measured: Mapping[int, float], devices: int) -> float:
    """That a step takes on so many devices."""
    if devices in measured:
        return measured[devices]
    nearest = sorted(measured, key=lambda number: (max(number, devices) / min(number, devices), number))[:2]
    first = nearest[0]
    shared = (1 - SERIAL) * measured[first] * first  # device-seconds
    if len(nearest) > 1:
        second = nearest[1]
        shared = max(0.0, (measured[first] - measured[second]) / (1 / first - 1 / second))
    alone = max(0.0, measured[first] - shared / first)
    return alone + (measured[first] - alone) * first / devices


def better(now: Underway, numbers: Iterable[int]) -> BetterNumber | None:
    """The number with which it ends first, where that is worth the change; None: it stays."""
    if now.stayed < now.cost / MOST_SPENT:
        return None
    times = {number: seconds_with(now.seconds, number) for number in {*numbers, now.devices}}
    quickest = min(times.values())
    best = min(number for number, seconds in times.items() if seconds <= AS_GOOD * quickest)
    faster = times[now.devices] / times[best]
    saves = now.left * (1 - 1 / faster)
    if best == now.devices or faster < LEAST_GAIN or saves < WORTH * now.cost:
        return None
    return BetterNumber(best, faster, saves)
