"""What is kept of a job's numbers: the last thousand points of each as they are, and all before them thinned; pure.

So a curve shows the whole run and its latest detail, and takes the same room after a minute as after a month.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby

from .events import Event, Metrics, ProgressMark

LATEST = 1000  # points kept as they are
OLDER = 1000  # and at most so many of all before
MOST_NAMES = 64  # curves of one job: a loop may make new names as it goes

Point = tuple[float, float | None]  # None: not a finite number, a hole in the curve


@dataclass
class Curve:
    """One number of a job."""

    latest: deque[Point] = field(default_factory=deque)
    older: list[Point] = field(default_factory=list)
    _stride: int = 1  # of the points that left `latest`, each so-manieth stays
    _left: int = 0  # so many have left it

    def add(self, at: float, value: float | None) -> None:
        """Append a point. One that lies before others replaces them: the job went on from a checkpoint before them."""
        for points in (self.latest, self.older):
            while points and points[-1][0] > at:
                points.pop()
        self.latest.append((at, value))
        if len(self.latest) > LATEST:
            self._thin(self.latest.popleft())

    def points(self, *, whole: bool = True) -> list[Point]:
        """From the first to the last, or the latest alone."""
        return [*self.older, *self.latest] if whole else list(self.latest)

    def _thin(self, point: Point) -> None:
        if self._left % self._stride == 0:
            self.older.append(point)
        self._left += 1
        if len(self.older) > OLDER:
            self.older = self.older[::2]
            self._stride *= 2


@dataclass
class Curves:
    """All of one job: its loop's numbers over its steps, its memory over time."""

    metrics: dict[str, Curve] = field(default_factory=dict)
    memory: Curve = field(default_factory=Curve)

    @property
    def older(self) -> bool:
        """Whether there is more than the latest points of some."""
        return any(curve.older for curve in (*self.metrics.values(), self.memory))

    def take(self, event: Event, when: float) -> None:
        """Take in an event of that time."""
        match event:
            case Metrics(step, values):
                for name, value in values.items():
                    if name in self.metrics or len(self.metrics) < MOST_NAMES:
                        self.metrics.setdefault(name, Curve()).add(float(step), value)
            case ProgressMark(_, used):
                self.memory.add(when, float(used))


MOST = 400  # points drawn: more than two to a pixel show nothing new


def thinned(points: Sequence[Point], most: int = MOST) -> list[Point]:
    """At most so many: the ends, and of each stretch between them the least and the largest, so that a spike stays."""
    if len(points) <= most:
        return list(points)
    left, right = points[0][0], points[-1][0]
    stretches = (most - 2) // 2

    def stretch(point: Point) -> int:
        return int((point[0] - left) / (right - left) * (stretches - 1)) if right > left else 0

    inner = (_least_and_largest(list(group)) for _, group in groupby(points[1:-1], stretch))
    return [points[0], *chain.from_iterable(inner), points[-1]]


def _least_and_largest(points: list[Point]) -> list[Point]:
    known = [(y, at) for at, (_, y) in enumerate(points) if y is not None and math.isfinite(y)]
    places = sorted({min(known)[1], max(known)[1]}) if known else [0]
    return [points[at] for at in places]
