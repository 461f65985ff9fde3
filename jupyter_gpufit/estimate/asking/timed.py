"""What trainings took by plans that were tried before, of time and memory, in the place of what is predicted; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from ..reckoning.learned import Lesson
from .ask import Ask, TraceAnswer

_LAST = 3  # runs that count, of each plan


def known_better(answer: TraceAnswer, ask: Ask, known: Sequence[Lesson]) -> Ask | None:
    """The question with what was measured, where by that another plan is the quickest; None: the answer stands."""
    climbed = answer.climbed
    if climbed is None or climbed.plan is None or ask.measured:
        return None
    measured = times_of(known)
    predicted = {step.words: step.seconds for step in climbed.steps if step.fits}
    factor = factor_of(known)
    seconds = {words: measured.get(words, guess * factor) for words, guess in predicted.items()}
    if not seconds or not any(words in measured for words in seconds):
        return None
    if min(seconds, key=lambda words: seconds[words]) == climbed.plan.words:
        return None
    return replace(ask, measured=measured, told_too_little=factor)


def known_to_fit(answer: TraceAnswer, ask: Ask, known: Sequence[Lesson]) -> Ask | None:
    """The question with what runs took, where one ended well by a plan that is predicted not to fit."""
    climbed, limits = answer.climbed, ask.limits
    if climbed is None or limits is None or ask.took:
        return None
    last = {lesson.plan: lesson for lesson in known}
    refused = {step.words for step in climbed.steps if not step.fits}
    fits = {
        words: lesson.measured
        for words, lesson in last.items()
        if words in refused and not lesson.ran_out and 0 < lesson.measured <= limits.alone
    }
    return replace(ask, took=fits) if fits else None


def times_of(known: Sequence[Lesson]) -> dict[str, float]:
    """Seconds of a step by the plan's words."""
    found: dict[str, list[float]] = {}
    for lesson in known:
        if lesson.step_seconds > 0 and not lesson.ran_out:
            found.setdefault(lesson.plan, []).append(lesson.step_seconds)
    return {plan: float(f"{median(times[-_LAST:]):.2g}") for plan, times in found.items()}


def factor_of(known: Sequence[Lesson]) -> float:
    """Measured seconds of a predicted one: what was not tried yet is as far off as what was."""
    factors = [
        lesson.step_seconds / lesson.predicted_seconds
        for lesson in known
        if lesson.step_seconds > 0 and lesson.predicted_seconds > 0
    ]
    return float(f"{median(factors):.2g}") if factors else 1.0
