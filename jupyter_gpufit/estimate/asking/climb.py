"""The trial runs of a fit ladder: each plan that the climb asks for is traced, until one fits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...fit.ladder import allowed
from ...fit.plan import AS_IT_IS, Facts, Plan, TriedPlan, climb, furthest, lower
from ...units import format_bytes
from ..reckoning.on_slot import on_slot
from .ask import Ask, TraceAnswer

RAN_OUT = "it ran out of memory there before"
NO_TIME = "no time was left for its trial run"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class PlanTrial:
    """One trial run."""

    answer: TraceAnswer
    facts: Facts
    why_useless: str = ""  # why nothing follows from it
    late: bool = False  # it was ended by its limit


def untold(words: str) -> None:
    """Nobody wants to know how far it is."""


def climbed(ask: Ask, trial: Callable[[Plan, float], PlanTrial], tell: Tell = untold) -> TraceAnswer:
    """The cell as it is and, where that does not fit within the limits, the cheapest plan that does.

    `trial`: a run under a plan for at most so many seconds. What does not fit would run out of memory, and its user
    rather waits for a plan: until one is found the search may take longer than an estimate, and tells what it tries.
    """
    plain, rungs = trial(Plan(), ask.limit), allowed(ask.fit)
    if ask.limits is not None and plain.late and (why := _why_longer(ask, plain.answer.estimate.low)):
        tell(f"{why}: its trial run takes longer")
        plain = trial(Plan(), ask.search)
    if ask.limits is None or plain.why_useless or plain.answer.estimate.how != "trace":
        untried = lower(plain.facts, Plan(), rungs)[-1:] if ask.limits is not None and plain.late else ()
        return replace(plain.answer, lower=untried)
    as_it_is = _tried(ask, plain, Plan(), plain)
    if ask.limits.may_fit(as_it_is) and not ask.most:
        return replace(plain.answer, lower=lower(plain.facts, Plan(), rungs))
    began, tried, fits = time.monotonic(), {AS_IT_IS: plain}, False
    one_rung = furthest(plain.facts, ask.limits, rungs[0])
    climbing = one_rung if ask.most else climb(plain.facts, as_it_is, ask.limits, rungs)
    found: TriedPlan | None = None
    while True:
        try:
            plan = climbing.send(found) if found else next(climbing)
        except StopIteration as end:
            result = end.value
            break
        took = time.monotonic() - began
        if plan.words in ask.ran_out:
            found = TriedPlan(failure=RAN_OUT)
        elif len(tried) > 1 and took > (ask.limit if fits else ask.search):
            found = TriedPlan(failure=NO_TIME)  # what was found by then is used
        else:
            tell(f"{_needs(ask, as_it_is.need or as_it_is.low)}: tries {plan.words}")
            tried[plan.words] = one = trial(plan, max(ask.limit, ask.search - took))
            found = _tried(ask, one, plan, plain)
            fits = fits or ask.limits.may_fit(found)
    cut_off = any(one.late for one in tried.values()) or any(step.why == NO_TIME for step in result.steps)
    if cut_off:  # another time may tell more
        plain = replace(plain, answer=replace(plain.answer, read=None))
    if result.plan is None:
        untried = lower(plain.facts, Plan(), rungs)[-1:] if cut_off else ()
        return replace(plain.answer, climbed=result, lower=(result.least,) if result.least else untried)
    planned = tried[result.plan.words].answer
    left = lower(plain.facts, result.plan, rungs)
    drawn = planned.timeline
    return replace(plain.answer, climbed=result, planned=planned.estimate, planned_timeline=drawn, lower=left)


def _why_longer(ask: Ask, low: int) -> str:
    """Why it is known by now that the cell as it is does not fit; empty: it is not."""
    if ask.limits is not None and low > ask.limits.alone:
        return _needs(ask, low)
    return RAN_OUT if AS_IT_IS in ask.ran_out else ""


def _needs(ask: Ask, needed: int) -> str:
    assert ask.limits is not None
    return f"needs {format_bytes(needed)}, and the largest device has {format_bytes(ask.limits.alone)}"


def _tried(ask: Ask, trial: PlanTrial, plan: Plan, plain: PlanTrial) -> TriedPlan:
    estimate = trial.answer.estimate
    seconds, usual = ask.seconds_of(plan.words, estimate), ask.seconds_of(AS_IT_IS, plain.answer.estimate)
    slower = seconds / usual if seconds and usual else estimate.slower
    if plan.words in ask.ran_out:
        return TriedPlan(estimate.low, estimate.need, slower, seconds, RAN_OUT)
    if trial.why_useless:
        return TriedPlan(failure=f"its trial run failed: {trial.why_useless}")
    estimate = on_slot(estimate) if ask.kind == "slot" else estimate
    low, need = (took, took) if (took := ask.took.get(plan.words)) else (estimate.low, estimate.need)
    moves, host = estimate.moved_per_step, estimate.on_host
    where = " in ".join(filter(None, (estimate.peak_op, estimate.peak_module)))
    return TriedPlan(low, need, slower, seconds, moves=moves, host=host, where=where)
