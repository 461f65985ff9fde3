"""Whether it is worth while to make a library's function one that can be left.

To rewrite one takes some milliseconds, once, and to be asked at its call sites a fraction of a microsecond each time.
Nobody knows beforehand which call will take an hour, so each function is rewritten when it is first called. What that
may cost a package is bounded, and a function whose calls have all been short is called as it is from then on: before it
could be left, it has ended. One that turns out to be long all the same is rewritten again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType

from ..reading.scopes import Definition
from ..rewriting.source import Source

FREE = 1.0  # seconds of the processor's time for rewriting what a package has
SHARE = 0.02  # of the cell's time, that rewriting may take beyond that
SHORT = 0.02  # seconds
ENOUGH = 3  # calls after which their mean tells


@dataclass
class LeftShare:
    """A function that can be left midway."""

    source: Source
    definition: Definition
    of_library: bool = False
    running: CodeType | None = None
    calls: int = 0
    seconds: float = 0.0  # of all calls
    is_short: bool = False  # so that it is called as it is


class Gain:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._spent: dict[str, float] = {}  # seconds by package

    def affords(self, package: str) -> bool:
        """Whether functions of a package may still be rewritten."""
        return self._spent.get(package, 0.0) < FREE + SHARE * (time.monotonic() - self._began)

    @contextmanager
    def rewriting(self, package: str) -> Iterator[None]:
        began = time.thread_time()
        try:
            yield
        finally:
            self._spent[package] = self._spent.get(package, 0.0) + time.thread_time() - began

    def clock(self) -> float:
        """Seconds, without those that went into rewriting."""
        return time.monotonic() - sum(self._spent.values())

    def took(self, one: LeftShare, seconds: float) -> None:
        """A call has ended."""
        one.calls += 1
        one.seconds += seconds
        one.is_short = one.calls >= ENOUGH and one.seconds < SHORT * one.calls
