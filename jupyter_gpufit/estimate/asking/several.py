"""What each of several devices needs: all of the parameters, and its part of what a batch takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ...fit.sharing import Sharing
from ...units import format_bytes
from ..reckoning.on_slot import on_slot
from ..reckoning.report import Estimate
from .ask import Ask, TraceAnswer

Answer = Callable[[Ask], tuple[TraceAnswer, bool]]


@dataclass(frozen=True)
class EachOfSeveral:
    """What was found for the least number of devices that is asked for; more of them need less each."""

    answer: TraceAnswer
    again: bool  # it was found out for an earlier run
    estimate: Estimate
    words: str


def counts(gpus: tuple[int, int], there: int) -> list[int]:
    """The least and the most that a job can get."""
    return sorted({gpus[0], max(gpus[0], min(gpus[1], there))})


def each_of(ask: Ask, gpus: tuple[int, int], there: int, answer: Answer) -> EachOfSeveral:
    """Trial runs as one rank of so many, the least number first."""
    tried = [(k, *answer(replace(ask, limits=None, sharing=Sharing(k)))) for k in counts(gpus, there)]
    told = [(k, on_slot(one.estimate) if ask.kind == "slot" else one.estimate) for k, one, _ in tried]
    _, first, again = tried[0]
    words = "; ".join(f"{_needs(one)} on each of {k}" for k, one in told if one.need is not None)
    return EachOfSeveral(first, again, told[0][1], f"{words}, data parallel" if words else "")


def _needs(estimate: Estimate) -> str:
    assert estimate.need is not None
    return format_bytes(estimate.need)
