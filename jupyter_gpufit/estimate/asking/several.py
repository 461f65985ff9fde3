"""What each of several devices needs: all of the parameters, and its part of what a batch takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...devices.speeds import among
from ...fit.elastic import AS_GOOD
from ...fit.plan import FitLimits
from ...fit.sharing import SPLITS, Sharing
from ...settings import Settings
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
    best: int = 0  # devices on which it is predicted to end first, likewise shared out; 0: nobody knows


def each_of(
    ask: Ask, gpus: tuple[int, int], there: int, limits: FitLimits | None, settings: Settings, answer: Answer
) -> EachOfSeveral:
    """The least that is split over the least number of devices, so that it fits; else, as it is for the least number.

    Without `limits`, nothing is split. No trial run begins once all together have taken the time of one.
    With `--fit any`, also how long a step takes on each number that is allowed.
    """
    until = time.monotonic() + ask.limit
    found = _least(ask, gpus, there, limits, settings, answer, until)
    if settings.fit != "any" or not found.estimate.seconds_per_step:
        return found
    seconds = {found.sharing.devices: found.estimate.seconds_per_step}
    most = max(found.sharing.devices, min(gpus[1], there))
    for k in range(found.sharing.devices + 1, most + 1):
        if time.monotonic() >= until:
            break
        more = _tried(ask, replace(found.sharing, devices=k), settings, answer)
        if more.estimate.seconds_per_step:
            seconds[k] = more.estimate.seconds_per_step
    quickest = min(seconds.values())
    best = min(k for k, one in seconds.items() if one <= AS_GOOD * quickest)
    if best < most and best + 1 not in seconds:
        return found  # of the next one nobody knows: it is not to be ruled out
    faster = seconds[found.sharing.devices] / seconds[best]
    words = f"{found.words}, about {faster:.2g}x as fast on {best}" if faster > 1 else found.words
    return replace(found, best=best, words=words)


def _least(
    ask: Ask,
    gpus: tuple[int, int],
    there: int,
    limits: FitLimits | None,
    settings: Settings,
    answer: Answer,
    until: float,
) -> EachOfSeveral:
    least, most = gpus[0], max(gpus[0], min(gpus[1], there))
    first: EachOfSeveral | None = None
    for k in range(least, most + 1 if limits else least + 1):
        for split in SPLITS if limits and k > 1 else SPLITS[:1]:
            if first is not None and time.monotonic() >= until:
                return first
            found = _tried(ask, Sharing(k, split), settings, answer)
            first = first or found
            need = found.estimate.need
            if limits is None or need is None or need <= limits.usable or found.estimate.low <= limits.alone:
                return found if need is not None else first
    assert first is not None
    return first


def in_its_time(ask: Ask, settings: Settings) -> Ask:
    """The question, with how fast each of so many devices is, so that the answer has the time of a step, too."""
    return replace(ask, speed=among(settings, ask.speed, ask.kind, ask.card.name, ask.sharing.devices))


def _tried(ask: Ask, sharing: Sharing, settings: Settings, answer: Answer) -> EachOfSeveral:
    found, again = answer(in_its_time(replace(ask, limits=None, sharing=sharing), settings))
    estimate = on_slot(found.estimate) if ask.kind == "slot" else found.estimate
    words = ""
    if estimate.need is not None:
        words = f"{format_bytes(estimate.need)} on each of {sharing.devices} devices, {sharing.words}"
    return EachOfSeveral(found, again, estimate, sharing, words)
