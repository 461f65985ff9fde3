"""How a model fares: how many calls it has answered, how fast, and how long one more would wait; pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

KEPT = 300  # calls and batches that count
WINDOW = 10.0  # seconds over which calls a second are counted


@dataclass
class Figures:
    """Of one model, as its calls are answered. One thread adds to it; another may read."""

    calls: int = 0
    _ended: deque[float] = field(default_factory=lambda: deque(maxlen=100_000))  # when, in seconds
    _took: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))  # seconds from call to answer
    _batches: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=KEPT))  # rows, seconds

    def answered(self, now: float, took: float) -> None:
        self.calls += 1
        self._ended.append(now)
        self._took.append(took)

    def ran(self, rows: int, seconds: float) -> None:
        self._batches.append((rows, seconds))

    def per_second(self, now: float) -> float:
        while self._ended and self._ended[0] < now - WINDOW:
            self._ended.popleft()
        return len(self._ended) / WINDOW

    def wait(self, rows: int) -> float:
        """Seconds that so many rows take, going by the last batches."""
        done = sum(count for count, _ in self._batches)
        return rows * sum(seconds for _, seconds in self._batches) / done if done else 0.0

    @property
    def rows(self) -> float | None:
        """Of a batch, in the mean."""
        batches = list(self._batches)
        return sum(count for count, _ in batches) / len(batches) if batches else None

    def quantiles(self) -> tuple[float, float] | None:
        """Seconds in which half of the last calls, and 99 of 100, were answered."""
        ordered = sorted(self._took)
        return (_at(ordered, 0.5), _at(ordered, 0.99)) if ordered else None


def _at(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
