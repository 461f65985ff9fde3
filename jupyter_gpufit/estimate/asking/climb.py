"""The trial runs of a fit ladder: each plan that the climb asks for is traced, until one fits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from ...fit.ladder import allowed
from ...fit.plan import AS_IT_IS, Facts, Plan, TriedPlan, climb, furthest, lower
from ..reckoning.on_slot import on_slot
from .ask import Ask, TraceAnswer

RAN_OUT = "it ran out of memory there before"
NO_TIME = "no time was left for its trial run"


@dataclass(frozen=True)
class PlanTrial:
    """One trial run."""

    answer: TraceAnswer
    facts: Facts
    why_useless: str = ""  # why nothing follows from it


def climbed(ask: Ask, trial: Callable[[Plan], PlanTrial]) -> TraceAnswer:
    """The cell as it is and, where that does not fit within the limits, the cheapest plan that does."""
    plain, rungs = trial(Plan()), allowed(ask.fit)
    if ask.limits is None or plain.why_useless or plain.answer.estimate.how != "trace":
        return plain.answer
    as_it_is = _tried(ask, plain, Plan(), plain)
    if ask.limits.may_fit(as_it_is) and not ask.most:
        return replace(plain.answer, lower=lower(plain.facts, Plan(), rungs))
    began, tried = time.monotonic(), {AS_IT_IS: plain}
    one_rung = furthest(plain.facts, ask.limits, rungs[0])
    climbing = one_rung if ask.most else climb(plain.facts, as_it_is, ask.limits, rungs)
    found: TriedPlan | None = None
    while True:
        try:
            plan = climbing.send(found) if found else next(climbing)
        except StopIteration as end:
            result = end.value
            break
        if plan.words in ask.ran_out:
            found = TriedPlan(failure=RAN_OUT)
        elif len(tried) > 1 and time.monotonic() - began > ask.limit:
            found = TriedPlan(failure=NO_TIME)  # what was found by then is used
        else:
            tried[plan.words] = one = trial(plan)
            found = _tried(ask, one, plan, plain)
    if result.plan is None:
        return replace(plain.answer, climbed=result, lower=(result.least,) if result.least else ())
    planned = tried[result.plan.words].answer
    left = lower(plain.facts, result.plan, rungs)
    drawn = planned.timeline
    return replace(plain.answer, climbed=result, planned=planned.estimate, planned_timeline=drawn, lower=left)


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
