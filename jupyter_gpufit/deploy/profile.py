"""How long a model's runs and loads take, going by the last ones; pure.

What was true when the model was deployed is not when its neighbours are busy. So each run that is seen counts, and
where all models have become slower lately, all are expected to be.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean, median_high

KEPT = 300  # times of each kind
ENOUGH = 10  # of them, before what was measured at load counts no more
FACTOR = 1.15  # on what 99 of 100 took
RECOMPUTED = 20  # times, after which the quantile is looked for again
LATELY = 12  # runs that say how fast the device is just now


@dataclass(frozen=True)
class Span:
    """Seconds that something takes, or until when it does."""

    usual: float = 0.0  # in the mean
    most: float = 0.0  # but for one in a hundred

    def slower(self, factor: float) -> Span:
        """On a device that is so much slower just now; what is feared was measured at such times, too."""
        usual = self.usual * factor
        return Span(usual, max(self.most, FACTOR * usual))


@dataclass(frozen=True)
class Finish:
    """When a row of things will have been done that are done one after the other.

    What one takes longer another takes less: means add up, and what is feared beyond them as squares do. With the most
    that each takes, one after the other, an hour would be foreseen for a minute's work.
    """

    usual: float  # by a clock
    feared: float = 0.0  # square seconds

    def after(self, span: Span) -> Finish:
        return Finish(self.usual + span.usual, self.feared + (span.most - span.usual) ** 2)

    @property
    def most(self) -> float:
        return self.usual + sqrt(self.feared)


@dataclass
class DevicePace:
    """How much slower than usual a device is lately; of all models on it.

    By the middle one of the last runs: a moment in which it stood still makes one run long and says nothing of others.
    """

    _seen: deque[float] = field(default_factory=lambda: deque(maxlen=LATELY))
    factor: float = 1.0

    def saw(self, seconds: float, usual: float) -> None:
        if usual > 0:
            self._seen.append(seconds / usual)
            if len(self._seen) >= LATELY // 2:
                self.factor = max(1.0, median_high(self._seen))


@dataclass
class Times:
    """Of one thing that is done again and again."""

    first: float = 0.0  # seconds, as measured when it was tried
    _last: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))
    _span: Span = field(default_factory=Span)
    _since: int = 0

    @property
    def span(self) -> Span:
        tried = Span(self.first, FACTOR * self.first)
        return tried if len(self._last) < ENOUGH and tried.most > self._span.most else self._span

    def add(self, seconds: float, pace: DevicePace) -> None:
        if len(self._last) >= ENOUGH:
            pace.saw(seconds, self._span.usual)
        self._last.append(seconds)
        self._since += 1
        if self._since >= RECOMPUTED or seconds > self._span.most or len(self._last) <= ENOUGH:
            self._since = 0
            ordered = sorted(self._last)
            self._span = Span(fmean(ordered), FACTOR * ordered[int(0.99 * (len(ordered) - 1))])


class Profile:
    """Of one model: its runs by their rows, and its load."""

    def __init__(
        self, tried: Sequence[tuple[int, float]] = (), load: float = 0.0, pace: DevicePace | None = None
    ) -> None:
        self._tried = sorted(tried)  # rows, seconds
        self._runs: dict[int, Times] = {}  # by the power of two of their rows
        self._load = Times(load)
        self._pace = pace or DevicePace()

    def run(self, rows: int) -> Span:
        """What a run of so many rows will take."""
        return self._times(rows).span.slower(self._pace.factor)

    def ran(self, rows: int, seconds: float) -> None:
        self._times(rows).add(seconds, self._pace)

    @property
    def load(self) -> Span:
        return self._load.span.slower(self._pace.factor)

    def loaded(self, seconds: float) -> None:
        self._load.add(seconds, self._pace)

    def _times(self, rows: int) -> Times:
        size = 1 << max(0, rows - 1).bit_length()
        if size not in self._runs:
            self._runs[size] = Times(self._at_first(size))
        return self._runs[size]

    def _at_first(self, rows: int) -> float:
        """By what was tried: in between, on a line; beyond, as many times as often."""
        if not self._tried:
            return 0.0
        below = max((one for one in self._tried if one[0] <= rows), default=self._tried[0])
        above = min((one for one in self._tried if one[0] >= rows), default=None)
        if above is None:
            return below[1] * -(-rows // below[0])
        if above[0] == below[0]:
            return above[1]
        return below[1] + (above[1] - below[1]) * (rows - below[0]) / (above[0] - below[0])
