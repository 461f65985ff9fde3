"""How far what is foreseen has been off, and hence what is kept in reserve of a call's time; pure.

A device stands still for a moment, its neighbours take the processor, and all that wait are answered later than was
foreseen, together. So what counts is how much later, of those in time, too: the reserve is there before it is needed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

KEPT = 1000  # batches
LATE = 0.003  # of them, about which may be later than the reserve is long
LEAST, MOST = 0.2, 0.8  # part of a call's time


@dataclass
class Worst:
    """Of the last times, all but a few of a thousand are shorter."""

    _last: deque[float] = field(default_factory=deque)
    _ordered: list[float] = field(default_factory=list)

    def saw(self, seconds: float) -> None:
        self._last.append(seconds)
        insort(self._ordered, seconds)
        if len(self._last) > KEPT:
            del self._ordered[bisect_left(self._ordered, self._last.popleft())]

    @property
    def seconds(self) -> float:
        """The worst one of all may be the only one of its kind."""
        beyond = max(1, round(LATE * len(self._ordered)))
        return max(0.0, self._ordered[-beyond - 1]) if len(self._ordered) > beyond else 0.0


@dataclass
class Reserve:
    """Of one device, whatever runs on it."""

    least: float = LEAST
    off: Worst = field(default_factory=Worst)  # so much later than foreseen a batch was answered
    way: Worst = field(default_factory=Worst)  # so long an answer was on its way

    def of(self, time: float) -> float:
        """Seconds of a call's."""
        return min(MOST * time, max(self.least * time, self.off.seconds) + self.way.seconds)
