"""How fast a job is: steps a second, and what share of the card's arithmetic they use; pure.

The share is MFU as in PaLM's paper: the model's own operations, so that what is computed again counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

WINDOW = 20.0  # seconds over which steps are counted
LEAST = 3  # steps, before anything is said


@dataclass
class Pace:
    """Counts steps over the last while."""

    flops_per_step: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)  # of the card, see cards.Sheet
    _marks: deque[tuple[float, int]] = field(default_factory=deque)  # seconds, steps

    def take(self, now: float, step: int) -> None:
        self._marks.append((now, step))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()

    @property
    def steps_per_second(self) -> float | None:
        """None until enough was seen."""
        if len(self._marks) < 2:
            return None
        (then, before), (now, step) = self._marks[0], self._marks[-1]
        return (step - before) / (now - then) if step - before >= LEAST and now > then else None

    @property
    def mfu(self) -> float | None:
        """Of the card's fastest arithmetic, which is its half precision; None where something is not known."""
        speed = self.steps_per_second
        if speed is None or not self.flops_per_step or not self.rates:
            return None
        return speed * self.flops_per_step / max(self.rates.values())

    def words(self) -> str:
        """ "2.1 steps/s, MFU 41 %", or as much of it as is known."""
        speed, share = self.steps_per_second, self.mfu
        if speed is None:
            return ""
        said = f"{speed:.1f} steps/s" if speed >= 1 else f"{1 / speed:.1f} s/step"
        return f"{said}, MFU {share:.0%}".replace("%", " %") if share is not None else said
