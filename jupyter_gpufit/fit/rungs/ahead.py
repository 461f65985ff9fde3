"""What a training will use next, from what it used between the same two optimizer steps before; pure.

A training does the same again and again. What it used, operation by operation, from one optimizer's step to the next is
kept, and where it is now in the course that it took the last time is found again after what was otherwise: another
branch, a batch more. Nothing depends on its being right but the time that copies take.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeAlias

NEVER = 1 << 60  # it is kept, and not used
DIES = -1  # the next that happens to it is that it is freed
_SEARCHED = 32  # uses, for where it goes on
_MOST = 100_000  # uses between two steps; of a longer course nothing is known

Birth: TypeAlias = tuple[str, int]  # the operation, and how many it had made before since the last step
Name: TypeAlias = int | Birth  # of a storage from before the last step, its number


@dataclass(frozen=True)
class StepUse:
    """One operation's."""

    op: str
    names: tuple[Name, ...]


@dataclass(frozen=True)
class StepCourse:
    """From one step to the next."""

    number: int
    uses: Sequence[StepUse] = ()
    more: Sequence[int] = ()  # bytes that there are after each, since it began
    ended_by: Hashable = None  # which optimizer's step
    places: dict[Name, list[int]] = field(default_factory=dict)  # where each is used
    deaths: dict[Name, int] = field(default_factory=dict)  # where each is freed

    def next_place(self, name: Name, at: int) -> int:
        """At which it is used, from `at` on."""
        places = self.places.get(name, ())
        found = bisect_right(places, at - 1)
        if found < len(places):
            return places[found]
        return DIES if self.deaths.get(name, -1) >= at else NEVER


class Courses:
    """Of one run."""

    def __init__(self) -> None:
        self.number = 0  # of the course that is under way
        self.at = 0  # the place in the expected one that comes next
        self.expected: StepCourse | None = None
        self.then: StepCourse | None = None  # after that
        self._known: dict[Hashable, StepCourse] = {}  # by the optimizer whose step was before
        self._before: Hashable = None
        self._begin()

    def _begin(self) -> None:
        self._uses: list[StepUse] = []
        self._more: list[int] = []
        self._made: Counter[str] = Counter()
        self._deaths: dict[Name, int] = {}

    def born(self, op: str) -> Birth:
        self._made[op] += 1
        return op, self._made[op]

    def use(self, op: str, names: tuple[Name, ...]) -> None:
        """It is used now."""
        if len(self._uses) < _MOST:
            self._uses.append(StepUse(op, names))
            self._more.append(0)
        if self.expected is not None:
            uses, count = self.expected.uses, len(names)
            for at in range(self.at, min(self.at + _SEARCHED, len(uses))):
                if uses[at].op == op and len(uses[at].names) == count:
                    self.at = at + 1
                    break

    def more(self, nbytes: int) -> None:
        """There are so many bytes more, or fewer, after what was used last."""
        if self._more:
            self._more[-1] += nbytes

    def died(self, name: Name) -> None:
        """It is freed now."""
        self._deaths[name] = len(self._uses)

    def turn(self, key: Hashable) -> None:
        """An optimizer has stepped."""
        if 0 < len(self._uses) < _MOST:
            places: dict[Name, list[int]] = {}
            for at, use in enumerate(self._uses):
                for name in use.names:
                    places.setdefault(name, []).append(at)
            more = list(accumulate(self._more))
            self._known[self._before] = StepCourse(self.number, self._uses, more, key, places, self._deaths)
        self._before, self.at = key, 0
        self.number += 1
        self.expected = self._known.get(key)
        self.then = self._known.get(self.expected.ended_by) if self.expected is not None else None
        self._begin()
