"""A logger in the manner of well-known reference code: the loop goes over a generator that a method makes."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import Any

import torch


class Smoothed:
    def __init__(self, window: int = 3) -> None:
        self.last: deque[float] = deque(maxlen=window)
        self.total, self.count = 0.0, 0

    def update(self, value: float) -> None:
        self.last.append(value)
        self.total += value
        self.count += 1

    @property
    def average(self) -> float:
        return self.total / max(1, self.count)


class Logger:
    def __init__(self) -> None:
        self.meters: dict[str, Smoothed] = defaultdict(Smoothed)
        self.lines: list[str] = []

    def update(self, **values: float) -> None:
        for name, value in values.items():
            self.meters[name].update(value)

    def log_every(self, iterable: Iterable[Any], every: int, header: str = "") -> Iterator[Any]:
        for number, one in enumerate(iterable):
            yield one
            if number % every == 0:
                self.lines.append(f"{header} {number} {self.meters['loss'].average.hex()}")
        self.lines.append(f"{header} done")


class Alternating:
    """A sampler, of which torch makes the generator."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[int]:
        for one in torch.randperm(self.size // 2).tolist():
            yield one
            yield self.size - 1 - one


def cycle(items: Iterable[Any]) -> Iterator[Any]:
    """Batches without end, made once by whoever sets up a training."""
    while True:
        for one in items:  # noqa: UP028  # as people write it
            yield one
