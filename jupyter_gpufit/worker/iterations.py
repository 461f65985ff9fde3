"""How far a cell's loops have come, where no optimizer of torch's counts its steps; pure.

Many notebooks write the update themselves (`p.data -= lr * p.grad`), or only evaluate. Their steps are the iterations
of the outermost loop: one of known length, or a `while`. Where one of those takes long (an epoch), they are those of
the loop inside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..jobs.live import Progress
from .loops import Loop, Nest

SAME = 3  # looks at one iteration and at one loop inside, after which that loop's iterations are counted

Key = tuple[str, int]


@dataclass
class Iterations:
    """Follows the loops from look to look; a second loop goes on counting where the first one ended."""

    _counted: tuple[Key, ...] = ()  # the loops, outermost first
    _wholes: dict[Key, int] = field(default_factory=dict)  # what one run of each has
    _before: int = 0  # steps when the outermost of them began
    _resumed: tuple[int, dict[Key, int]] | None = None  # the checkpoint's steps, and where its loops stood
    _items: int = 0  # of the outermost, at the look before
    _range: Any = None  # its iterator, if it is a range's
    _turns: list[int] | None = None  # if it is a `while`, those begun
    _advances: bool = False  # it has been seen to, or has an inner one that is counted
    _place: tuple[object, ...] = ()  # at which iterations the look before was, and in which loop
    _looks: int = 0  # at this place

    def take(self, nest: Nest, step: int) -> int:
        """The steps so far: `step`, which the job had at the look before, or more."""
        known: dict[Key, int] = {}  # iterations that each has behind it
        for loop in nest:
            if loop.turns is None and not loop.whole:
                break
            if loop.turns is not None and known:
                break  # inside of a loop of known length, it is part of an iteration
            known[loop.key] = _behind(loop)
            self._wholes[loop.key] = loop.whole or 0
        if not known:
            return step
        outermost, *_ = keys = tuple(known)
        if self._counted[:1] != (outermost,) or known[outermost] < self._items:
            resumed = not self._counted  # from a checkpoint, in the middle of its loops
            step = step if resumed else self.last(step)
            self._counted, self._before = (outermost,), step
            self._resumed = (step, known) if resumed else None
            self._advances, self._items = False, known[outermost]
            self._go_on_in_the_middle()
        self._advances = self._advances or known[outermost] > self._items
        self._items, self._range, self._turns = known[outermost], nest[0].range, nest[0].turns
        self._look_inside(known, keys)
        if not known.keys() >= set(self._counted):
            return step  # an inner loop has not begun yet, or has ended: there is no telling which
        return max(step, self._before + self._made(known))

    def _look_inside(self, known: dict[Key, int], keys: tuple[Key, ...]) -> None:
        depth = len(self._counted)
        place = (*(known[key] for key in keys[:depth]), *keys[: depth + 1])
        self._looks = self._looks + 1 if place == self._place else 1
        self._place = place
        if self._looks >= SAME and len(keys) > depth and keys[:depth] == self._counted:
            self._counted, self._looks, self._advances = keys[: depth + 1], 0, True
            self._go_on_in_the_middle()

    def _go_on_in_the_middle(self) -> None:
        """Of the steps that a checkpoint had, those that its loops had made are not counted once more."""
        if self._resumed is not None:
            step, known = self._resumed
            self._before = max(0, step - self._made(known))

    def _made(self, known: Mapping[Key, int]) -> int:
        made = 0
        for key in self._counted:
            made = made * self._wholes[key] + known.get(key, 0)
        return made

    def last(self, step: int) -> int:
        """The steps when the loop is over: between the last look and its end it went on."""
        if self._turns is not None and len(self._counted) == 1:
            return max(step, self._before + self._turns[0])
        if self._range is None or not self._counted:
            return step
        left, whole = self._range.__length_hint__(), self._wholes[self._counted[0]]
        if left and len(self._counted) > 1:
            return step  # it was left early, and nobody saw where in the loop inside
        made = whole if not left else max(0, whole - left - 1)
        return max(step, self._before + made * math.prod(self._wholes[key] for key in self._counted[1:]))

    def told(self, progress: Progress, step: int) -> Progress:
        """Of a job without steps of its own: with these instead, of how many."""
        whole = math.prod(self._wholes[key] for key in self._counted)  # of a `while`, 0
        total = self._before + whole
        return replace(progress, step=step, total=total if self._advances and whole and total >= step else None)


def _behind(loop: Loop) -> int:
    """The iteration that it is at is not one of them."""
    if loop.turns is not None:
        return max(0, loop.turns[0] - 1)
    assert loop.whole is not None and loop.left is not None
    return max(0, loop.whole - loop.left - 1)
