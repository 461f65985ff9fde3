"""Now by a plan or later as it is, and what was measured in the place of what was predicted."""

from __future__ import annotations

from dataclasses import replace

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.sooner import TwoWays
from jupyter_gpufit.estimate.asking.timed import factor_of, known_better, known_to_fit, times_of
from jupyter_gpufit.estimate.reckoning.learned import Lesson
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.fit.plan import Climbed, FitLimits, Plan, RungVerdict
from tests.estimate.traced import A100

PLAN = Plan({"recompute": {}}, "recomputing 9 of 12 blocks", 1.5, seconds=1.5)
WAYS = TwoWays(steps=1200, plain=1.0, plan=PLAN, now=0.0, later=3000.0, here="GPU 1", there="GPU 0")


def test_that_which_is_done_first_is_chosen_and_both_are_said() -> None:
    assert WAYS.begins_now
    assert WAYS.words.startswith("now on GPU 1 by recomputing 9 of 12 blocks, done in about 30 min; on GPU 0 from ")
    assert WAYS.words.endswith("as it is, done in about 1 h 10 min"), WAYS.words
    waits = replace(WAYS, later=100.0)
    assert not waits.begins_now and waits.words.startswith("on GPU 0 from ")


def test_nothing_is_chosen_where_a_time_is_not_known() -> None:
    unknown = [replace(WAYS, steps=0), replace(WAYS, plain=0.0), replace(WAYS, later=None)]
    unknown.append(replace(WAYS, plan=replace(PLAN, seconds=0.0)))

    assert not any(ways.begins_now for ways in unknown)


def lesson(plan: str, took: float, predicted: float, **more: bool) -> Lesson:
    times = {"step_seconds": took, "predicted_seconds": predicted}
    return Lesson(key="k", time=0, kind="gpu", card="A", job="j", measured=1, plan=plan, **times, **more)  # type: ignore[arg-type]


def answer(**seconds: float) -> TraceAnswer:
    steps = tuple(RungVerdict(words, words, 1, time, True, True, "", seconds=time) for words, time in seconds.items())
    best = min(seconds, key=lambda words: seconds[words])
    estimate = Estimate(card="A", card_total=1)
    return TraceAnswer(estimate=estimate, climbed=Climbed(steps, Plan({}, best, seconds=seconds[best])))


def test_what_was_measured_chooses_another_plan() -> None:
    ask = Ask(card=A100, context=Context(0, 0, ""))
    slow = [lesson("spill", 9.0, 2.0)] * 3

    better = known_better(answer(recompute=3.0, spill=2.0), ask, [*slow, lesson("recompute", 3.1, 3.0)])

    assert better is not None and better.measured == {"spill": 9.0, "recompute": 3.1}
    assert better.seconds_of("spill", Estimate(card="A", card_total=1, seconds_per_step=2.0)) == 9.0
    assert Ask.decode(better.encode()) == better


def test_one_run_that_was_slower_than_predicted_says_as_much_of_plans_that_were_never_tried() -> None:
    ask = Ask(card=A100, context=Context(0, 0, ""))
    slow = [lesson("spill", 4.0, 2.0)]

    assert known_better(answer(recompute=3.0, spill=2.0), ask, slow) is None, "both are twice as slow then"
    assert known_better(answer(recompute=3.0, spill=2.0), ask, []) is None
    assert factor_of(slow) == 2.0 and times_of([lesson("spill", 4.0, 2.0, ran_out=True)]) == {}


def test_a_plan_by_which_a_run_ended_well_is_known_to_fit() -> None:
    ask = Ask(card=A100, context=Context(0, 0, ""), limits=FitLimits(10, 10))
    refused = replace(answer(recompute=3.0), climbed=Climbed((RungVerdict("", "spill", 20, 1.0, True, False, "20"),)))
    ran = lesson("spill", 9.0, 2.0)  # with 1 byte

    better = known_to_fit(refused, ask, [replace(ran, ran_out=True), ran])

    assert better is not None and better.took == {"spill": 1} and Ask.decode(better.encode()) == better
    assert known_to_fit(refused, better, [ran]) is None, "it was asked already"
    assert known_to_fit(refused, ask, [ran, replace(ran, ran_out=True)]) is None
    assert known_to_fit(refused, ask, [replace(ran, measured=11)]) is None, "on a larger device"
    assert known_to_fit(answer(spill=1.0), ask, [ran]) is None, "it fits by what is predicted"
