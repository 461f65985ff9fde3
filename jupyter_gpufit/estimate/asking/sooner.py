"""Now on a small device by a plan, or later on the large one that is taken: what is predicted to finish first; pure.

Nothing is chosen where a time is not known: how many steps the cell makes, how long one takes, or when the large device
is given back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from ...fit.plan import Plan
from ...units import device_words, format_duration


@dataclass(frozen=True)
class TwoWays:
    """Both, with their times; seconds."""

    steps: int  # that the cell makes; 0: nobody knows
    plain: float  # a step as it is
    plan: Plan
    now: float  # since 1970
    later: float | None  # since 1970, when its turn comes at the latest; None: nobody knows
    here: str  # the device that can be had now
    there: str  # the one where it fits as it is

    @property
    def known(self) -> bool:
        return bool(self.steps and self.plain and self.plan.seconds and self.later is not None)

    @property
    def begins_now(self) -> bool:
        """Whether it is done earlier so."""
        return self.known and self._by_plan < self._as_it_is

    @property
    def _by_plan(self) -> float:
        return self.steps * self.plan.seconds

    @property
    def _as_it_is(self) -> float:
        """Since now."""
        return max(0.0, (self.later or self.now) - self.now) + self.steps * self.plain

    @property
    def words(self) -> str:
        """ "now on GPU 1 by recomputing 9 of 12 blocks, done in about 50 min; on GPU 0 from 12:40, ..." """
        clock = time.strftime("%H:%M", time.localtime(self.later)) if self.later is not None else "nobody knows when"
        by_plan = f"on {device_words([self.here])} by {self.plan.words}, done in about {_about(self._by_plan)}"
        plain = f"on {device_words([self.there])} from {clock} as it is, done in about {_about(self._as_it_is)}"
        return f"now {by_plan}; {plain}" if self.begins_now else f"{plain}; now {by_plan}"


def _about(seconds: float) -> str:
    return format_duration(float(f"{seconds:.2g}"))
