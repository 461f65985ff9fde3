"""How fast a job is: steps a second, what share of the card's arithmetic they use, and what crosses the link; pure.

The share is MFU as in PaLM's paper: the model's own operations, so that what is computed again counts once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...units import format_bytes

WINDOW = 20.0  # seconds over which steps are counted
LEAST = 3  # steps, before anything is said


@dataclass
class Pace:
    """Counts steps over the last while."""

    flops_per_step: int | None = None
    rates: Mapping[str, float] = field(default_factory=dict)  # of the card, see cards.Sheet
    foreseen: float = 0.0  # seconds of a step, before it ran; 0: nobody could tell
    _marks: deque[tuple[float, int, int]] = field(default_factory=deque)  # seconds, steps, bytes

    def take(self, now: float, step: int, moved: int = 0) -> None:
        """`moved`: bytes so far between the device and the host, by a plan."""
        self._marks.append((now, step, moved))
        while len(self._marks) > 2 and self._marks[1][0] <= now - WINDOW:
            self._marks.popleft()

    @property
    def steps_per_second(self) -> float | None:
        """None until enough was seen."""
        if len(self._marks) < 2:
            return None
        (then, before, _), (now, step, _) = self._marks[0], self._marks[-1]
        return (step - before) / (now - then) if step - before >= LEAST and now > then else None

    @property
    def link(self) -> float | None:
        """Bytes a second between device and host; None: nothing was seen to move."""
        if not self._marks:
            return None
        (then, _, before), (now, _, moved) = self._marks[0], self._marks[-1]
        return (moved - before) / (now - then) if moved > before and now > then else None

    @property
    def mfu(self) -> float | None:
        """Of the card's fastest arithmetic, which is its half precision; None where something is not known."""
        speed = self.steps_per_second
        return None if speed is None else self._share_at(speed)

    @property
    def mfu_foreseen(self) -> float | None:
        return self._share_at(1 / self.foreseen) if self.foreseen else None

    def _share_at(self, steps_per_second: float) -> float | None:
        if not self.flops_per_step or not self.rates:
            return None
        return steps_per_second * self.flops_per_step / max(self.rates.values())

    def words(self) -> str:
        """ "2.1 steps/s, MFU 41 % (45 % foreseen), 1.2 GiB/s to the host and back", or as much of it as is known."""
        speed, share, link = self.steps_per_second, self.mfu, self.link
        if speed is None:
            return ""
        parts = [f"{speed:.1f} steps/s" if speed >= 1 else f"{1 / speed:.1f} s/step"]
        told = "" if self.mfu_foreseen is None else f" ({round(100 * self.mfu_foreseen)} % foreseen)"
        parts += [f"MFU {round(100 * share)} %{told}"] if share is not None else []
        parts += [f"{format_bytes(round(link))}/s to the host and back"] if link is not None else []
        return ", ".join(parts)
