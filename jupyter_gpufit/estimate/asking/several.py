"""What each of several devices needs: all of the parameters, and its part of what a batch takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...fit.plan import FitLimits
from ...fit.sharing import Sharing
from ...units import format_bytes
from ..reckoning.on_slot import on_slot
from ..reckoning.report import Estimate
from .ask import Ask, TraceAnswer

Answer = Callable[[Ask], tuple[TraceAnswer, bool]]


@dataclass(frozen=True)
class EachOfSeveral:
    """How a cell is shared out, and what each device needs then; with more of them it needs less."""

    answer: TraceAnswer
    again: bool  # it was found out for an earlier run
    estimate: Estimate
    sharing: Sharing
    words: str


def each_of(ask: Ask, gpus: tuple[int, int], there: int, limits: FitLimits | None, answer: Answer) -> EachOfSeveral:
    """The least that is split over the least number of devices, so that it fits; else, as it is for the least number.

    Without `limits`, nothing is split. No trial run begins once all together have taken the time of one.
    """
    least, most = gpus[0], max(gpus[0], min(gpus[1], there))
    first: EachOfSeveral | None = None
    until = time.monotonic() + ask.limit
    for k in range(least, most + 1 if limits else least + 1):
        for split in (False, True) if limits and k > 1 else (False,):
            if first is not None and time.monotonic() >= until:
                return first
            found = _tried(ask, Sharing(k, split), answer)
            first = first or found
            need = found.estimate.need
            if limits is None or need is None or need <= limits.usable or found.estimate.low <= limits.alone:
                return found if need is not None else first
    assert first is not None
    return first


def _tried(ask: Ask, sharing: Sharing, answer: Answer) -> EachOfSeveral:
    found, again = answer(replace(ask, limits=None, sharing=sharing))
    estimate = on_slot(found.estimate) if ask.kind == "slot" else found.estimate
    words = ""
    if estimate.need is not None:
        words = f"{format_bytes(estimate.need)} on each of {sharing.devices} devices, {sharing.words}"
    return EachOfSeveral(found, again, estimate, sharing, words)
