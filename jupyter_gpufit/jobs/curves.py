"""What is kept of a job's numbers: the last thousand points of each as they are, all before them thinned; pure.

Thinned means: of each stretch the least and the largest, so that a spike of one step in a million is seen.

So a curve shows the whole run and its latest detail, and takes the same room after a minute as after a month.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from .events import DeviceMark, Event, Lap, Metrics, ProgressMark, StateChange
from .state import BEFORE, GOING, State

LATEST = 1000  # points kept as they are
OLDER = 1000  # and at most so many of all before
MOST_BREAKS = 100  # the latest
MOST_LAPS = 1000  # the latest
MOST_NAMES = 64  # curves of one job: a loop may make new names as it goes

Point = tuple[float, float | None]  # None: not a finite number, a hole in the curve


@dataclass
class Curve:
    """One number of a job."""

    latest: deque[Point] = field(default_factory=deque)
    older: list[Point] = field(default_factory=list)
    _stretch: list[Point] = field(default_factory=list)  # of those that left `latest`, the last ones
    _stride: int = 2  # so many make a stretch
    _count: int = 0  # of those in the last one

    def add(self, at: float, value: float | None) -> None:
        """Append a point. One that lies before others replaces them: the job went on from a checkpoint before them."""
        for points in (self.latest, self._stretch, self.older):
            while points and points[-1][0] > at:
                points.pop()
        self.latest.append((at, value))
        if len(self.latest) > LATEST:
            self._thin(self.latest.popleft())

    def points(self, *, whole: bool = True) -> list[Point]:
        """From the first to the last, or the latest alone."""
        return [*self.older, *self._stretch, *self.latest] if whole else list(self.latest)

    def _thin(self, point: Point) -> None:
        self._stretch.append(point)
        self._count += 1
        if len(self._stretch) > 2:
            self._stretch = _least_and_largest(self._stretch)
        if self._count < self._stride:
            return
        self.older += self._stretch
        self._stretch, self._count = [], 0
        if len(self.older) > OLDER - 2:  # which stay for the last stretch
            fours = (self.older[at : at + 4] for at in range(0, len(self.older), 4))
            self.older = list(chain.from_iterable(map(_least_and_largest, fours)))
            self._stride *= 2


@dataclass(frozen=True)
class Break:
    """The training stood still and had no device: a curve has a gap there, and not a bridge."""

    step: float  # the last that counts before it
    left: float  # seconds since 1970
    back: float


@dataclass
class Curves:
    """All of one job: its loop's numbers over its steps, its memory over time."""

    metrics: dict[str, Curve] = field(default_factory=dict)
    memory: Curve = field(default_factory=Curve)
    clock: Curve = field(default_factory=Curve)  # when it was at each step
    busy: Curve = field(default_factory=Curve)  # percent of the time in which its device computed, over time
    power: Curve = field(default_factory=Curve)  # watts
    breaks: deque[Break] = field(default_factory=lambda: deque(maxlen=MOST_BREAKS))
    laps: deque[Lap] = field(default_factory=lambda: deque(maxlen=MOST_LAPS))
    _step: float = 0.0  # the latest
    _there: frozenset[str] = frozenset()  # numbers that the loop had at the last look that brought something new
    _epoch: int = 0  # of the worker that spoke last
    _seen: float | None = None  # when its cell was seen to run for the last time; None: not yet
    _left: float | None = None  # since when it has not run; None: it runs

    @property
    def older(self) -> bool:
        """Whether there is more than the latest points of some."""
        return any(curve.older for curve in (*self.metrics.values(), self.memory))

    @property
    def size(self) -> int:
        """How many points are kept."""
        others = self.memory, self.clock, self.busy, self.power
        return sum(len(curve.older) + len(curve.latest) for curve in (*self.metrics.values(), *others))

    def points(self, name: str, *, whole: bool = True) -> list[Point]:
        """One of the numbers, up to where the training is: its next point may be seconds away."""
        points = self.metrics[name].points(whole=whole)
        at, value = points[-1]
        left = self.breaks[-1].step if self.breaks else -math.inf  # behind it the loop has yet to come to its numbers
        return [*points, (self._step, value)] if name in self._there and self._step > at > left else points

    def take(self, event: Event, when: float) -> None:
        """Take in an event of that time."""
        match event:
            case StateChange(state, epoch=epoch):
                self._turn(state, when, epoch)
                return
            case Metrics(step) | ProgressMark(step):
                self._goes_on(float(step), when)
        match event:
            case Metrics(step, values):
                self._there = frozenset(values)
                for name, value in values.items():
                    if name in self.metrics or len(self.metrics) < MOST_NAMES:
                        self.metrics.setdefault(name, Curve()).add(float(step), value)
            case ProgressMark(_, used):
                self.memory.add(when, float(used))
            case DeviceMark(busy, power):
                for curve, value in ((self.busy, busy), (self.power, power)):
                    if value is not None:
                        curve.add(when, float(value))
            case Lap(step, number):
                while self.laps and self.laps[-1].step > step:
                    self.laps.pop()  # it went on from a checkpoint before that
                if not self.laps or self.laps[-1].number != number:
                    self.laps.append(event)

    def _turn(self, state: State, when: float, epoch: int) -> None:
        is_another, self._epoch = epoch > self._epoch, max(epoch, self._epoch)
        if is_another and self._seen is not None and self._left is None:
            self._left = self._seen  # a move: its process began anew on another device
        if state not in GOING and self._seen is not None and self._left is None:
            # Of a worker that was killed, the first word of the next one comes long after its end.
            self._left = self._seen if state in BEFORE else when

    def _goes_on(self, step: float, when: float) -> None:
        if self._left is not None:
            # It may have gone on from an earlier step: what lies behind that is drawn over.
            last = min(self._step, step - 1)
            for curve in (self.metrics[name] for name in self._there & self.metrics.keys()):
                at, value = curve.latest[-1]
                if last > at:  # what was drawn up to there stays
                    curve.add(last, value)
            self.breaks.append(Break(last, self._left, when))
            self._left = None
        self._step, self._seen = step, when
        self.clock.add(step, when)


def runs(points: Iterable[Point], cuts: Iterable[float]) -> list[list[Point]]:
    """The points in stretches that a line may join: none goes across a cut, or a hole."""
    left = deque(sorted(cuts))
    found: list[list[Point]] = [[]]
    for point in points:
        behind = False
        while left and left[0] < point[0]:
            left.popleft()
            behind = True
        if (behind or point[1] is None) and found[-1]:
            found.append([])
        if point[1] is not None:
            found[-1].append(point)
    return [stretch for stretch in found if stretch]


MOST = 400  # points drawn: more than two to a pixel show nothing new


def thinned(points: Sequence[Point], most: int = MOST) -> list[Point]:
    """At most so many: the ends, and of each stretch between them the least and the largest, so that a spike stays."""
    if len(points) <= most:
        return list(points)
    left, right = points[0][0], points[-1][0]
    scale = ((most - 2) // 2 - 1) / (right - left) if right > left else 0.0
    found, stretch, number = [points[0]], list[Point](), 0
    for point in points[1:-1]:
        if (at := int((point[0] - left) * scale)) != number:
            found += stretch if len(stretch) < 2 else _least_and_largest(stretch)
            stretch, number = [], at
        stretch.append(point)
    return [*found, *_least_and_largest(stretch), points[-1]]


def _least_and_largest(points: list[Point]) -> list[Point]:
    known = [(y, at) for at, (_, y) in enumerate(points) if y is not None and math.isfinite(y)]
    places = sorted({min(known)[1], max(known)[1]}) if known else [0]
    return [points[at] for at in places]
