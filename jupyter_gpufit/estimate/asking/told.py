"""What an estimate is told as: one answer for one value, and what it means for the devices here; pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...fit.plan import RungVerdict
from ...fit.sharing import Sharing
from ..reckoning.verdict import Verdict, verdict_on
from ..showing.text import where_it_fits
from .ask import TraceAnswer
from .target import EstimateTarget


@dataclass(frozen=True)
class Told:
    """One answer, for one value of what was swept."""

    answer: TraceAnswer
    target: EstimateTarget
    found: tuple[Verdict, ...]  # none for a card that is not here
    values: tuple[tuple[str, int], ...] = ()
    largest: bool = False  # the answer to --max-batch
    all_data: bool = False  # with it, the data loader gives all samples at once
    rung: str = ""  # by all that this one can do; empty: as it is
    several: tuple[tuple[Sharing, TraceAnswer], ...] = ()  # what each of so many devices needs

    @property
    def by(self) -> RungVerdict | None:
        """What became of its rung."""
        climbed = self.answer.climbed
        return climbed.steps[-1] if self.rung and climbed is not None else None


Show = Callable[[Told], None]


def fit_words(told: Told) -> str:
    """What the estimate means for the devices here, or for a card that is not."""
    if told.found:
        return where_it_fits(told.found)
    return {
        "fits when idle": "fits on such a card",
        "tight": "tight on such a card",
        "does not fit": "does not fit on such a card",
    }.get(verdict_on(told.answer.estimate), "cannot tell whether it fits")
