"""How often loops go on whose end hangs on values that nobody has."""

from __future__ import annotations

from collections import Counter
from types import CodeType

_AT_FIRST, _AGAIN = 8, 2  # turns of a loop: the first time, and later
_MANY = 64  # numbers asked for in a loop at one place; the next ones differ

Decides = tuple[CodeType, int]  # the instruction that decides whether it goes on


class Rounds:
    """How often loops went on, by the places that decide it, since an optimizer's last step."""

    def __init__(self) -> None:
        self._step = 0
        self._counts: Counter[Decides] = Counter()
        self._ended: set[Decides] = set()

    def are_enough(self, place: Decides, step: int) -> bool:
        """Count one more."""
        self._begin(step)
        self._counts[place] += 1
        if self._counts[place] <= (_AGAIN if place in self._ended else _AT_FIRST):
            return False
        self._ended.add(place)
        self._counts[place] = 0
        return True

    def many(self, place: Decides, step: int) -> int:
        """How many more these are than a loop needs that ends by itself."""
        self._begin(step)
        self._counts[place] += 1
        return max(0, self._counts[place] - _MANY)

    def _begin(self, step: int) -> None:
        if step != self._step:
            self._step = step
            self._counts.clear()
