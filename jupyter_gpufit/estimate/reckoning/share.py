"""How much of its device a training should hold while it runs, by what it has taken so far; pure.

A claim that was guessed too large keeps others waiting for nothing, so it shrinks once the training is in its stride.
What comes later may take more (an evaluation, a longer batch), so it holds more again before it has run out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...units import MiB
from .for_resume import RESERVE, RESERVE_ON_SLOT, SLOT_LEAST, STEPS

WORTH = 0.1  # of the device, that others gain by it: for less, nobody starts
LESS_OFTEN = 4  # times as long a stretch without growth is asked for, after it was wrong
LEAST = 64 * MiB


@dataclass(frozen=True)
class Intake:
    """What was seen of a training since it runs."""

    peak: int = 0  # bytes it took at the most, context included
    grew: float = 0.0  # seconds after its start at which that last became more
    step: int = 0  # and in which step that was
    steady: float = 1.0  # how much longer than usual it must not grow, before it is believed

    def seen(self, peak: int, now: float, step: int) -> Intake:
        """One more look at it; what malloc and allocators wobble by is no growth."""
        if peak <= self.peak * 1.01:
            return self
        return replace(self, peak=peak, grew=now, step=step)

    def was_wrong(self) -> Intake:
        """It shrank too early."""
        return replace(self, steady=self.steady * LESS_OFTEN)

    def is_in_its_stride(self, now: float, step: int, after: float) -> bool:
        """Has it not grown for so long that it will go on like this? `after`: seconds, with steps; else ten times that.

        At least as long as it took until then: what is slow to grow is slow to show it.
        """
        quiet, waited = now - self.grew, after * self.steady
        if step == 0:
            return quiet >= max(10 * waited, self.grew)
        return quiet >= max(waited, self.grew) and step - self.step >= STEPS * self.steady


def enough(peak: int, *, on_slot: bool) -> int:
    """Bytes that hold what was seen, and a reserve."""
    least = SLOT_LEAST if on_slot else LEAST
    return max(round(peak * (1 + (RESERVE_ON_SLOT if on_slot else RESERVE))), least)


def less(held: int, intake: Intake, total: int, *, on_slot: bool) -> int | None:
    """What to hold instead of `held` bytes of a device of `total`; None: it is not worth it."""
    wanted = enough(intake.peak, on_slot=on_slot)
    return wanted if held - wanted >= WORTH * total else None


def more(held: int, used: int, *, on_slot: bool) -> int | None:
    """What to hold where the claim is about to be too small; None: it is not."""
    reserve = RESERVE_ON_SLOT if on_slot else RESERVE
    if used * (1 + reserve / 2) <= held:
        return None
    return max(held * 3 // 2, enough(used, on_slot=on_slot))
