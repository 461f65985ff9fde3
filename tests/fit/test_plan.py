"""The climb down the ladder: which trial runs it asks for, and what it chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from jupyter_gpufit.estimate.asking.fit import trains_by
from jupyter_gpufit.fit.plan import Climbed, Facts, FitLimits, ModelPart, Notch, Plan, Rung, TriedPlan, climb, lower
from jupyter_gpufit.fit.rungs import recompute
from jupyter_gpufit.fit.rungs.blocks import blocks_of

FACTS = Facts()


@dataclass
class Saves:
    """A rung of so many notches."""

    NAME: str
    count: int
    EXACT: bool = True
    STEEP: bool = False
    REPLACES: tuple[str, ...] = ()
    cannot: str = "it cannot"

    def notches(self, facts: Facts) -> Sequence[Notch]:
        return [Notch(number, f"{self.NAME} {number} of {self.count}") for number in range(1, self.count + 1)]

    def why_not(self, facts: Facts) -> str:
        return self.cannot


@dataclass
class Trials:
    """Runs a climb; each notch saves 10 bytes of 100."""

    room: int
    asked: list[str] = field(default_factory=list)
    fails: Callable[[Plan], bool] = lambda plan: False

    def through(self, *rungs: Rung, plain: int = 100) -> Climbed:
        climbing = climb(FACTS, TriedPlan(plain, plain), FitLimits(self.room, self.room), rungs)
        tried: TriedPlan | None = None
        while True:
            try:
                plan = climbing.send(tried) if tried else next(climbing)
            except StopIteration as end:
                found: Climbed = end.value
                return found
            self.asked.append(plan.words)
            need = plain - 10 * sum(plan.parts.values())
            tried = (
                TriedPlan(failure="its trial run failed")
                if self.fails(plan)
                else TriedPlan(need, need, 1 + 0.1 * len(self.asked))
            )


def test_the_least_that_is_enough_is_found_with_few_trial_runs() -> None:
    trials = Trials(room=35)

    found = trials.through(Saves("recompute", 8))

    assert found.plan is not None and found.plan.words == "recompute 7 of 8"
    assert trials.asked == ["recompute 8 of 8", "recompute 7 of 8", "recompute 6 of 8"]
    assert [step.fits for step in found.steps] == [False, True]


def test_a_rung_that_is_not_enough_stays_under_the_next() -> None:
    found = Trials(room=45).through(Saves("one", 3), Saves("two", 4, EXACT=False))

    assert found.plan is not None and found.plan.parts == {"one": 3, "two": 3}
    assert not found.plan.exact and found.plan.words == "one 3 of 3 and two 3 of 4"
    assert "not the same bits" in found.plan.cost
    assert [step.why for step in found.steps] == [
        "needs 100 B, and the largest device has 45 B",
        "needs 70 B, and the largest device has 45 B",
        "",
    ]


def test_notches_that_take_long_to_try_are_tried_in_their_order() -> None:
    trials = Trials(room=75)

    found = trials.through(Saves("steep", 9, STEEP=True))

    assert found.plan is not None and found.plan.words == "steep 3 of 9"
    assert trials.asked == ["steep 1 of 9", "steep 2 of 9", "steep 3 of 9"]


def test_every_refusal_is_told_where_nothing_is_enough() -> None:
    trials = Trials(room=5, fails=lambda plan: "two" in plan.parts)

    found = trials.through(Saves("one", 3), Saves("none", 0, cannot="no model was seen"), Saves("two", 2))

    assert found.plan is None
    assert [step.why for step in found.steps[1:]] == [
        "needs 70 B, and the largest device has 5 B",
        "no model was seen",
        "its trial run failed",
    ]
    assert found.least is not None and found.least.words == "one 3 of 3", "what needs least, for one that runs out"
    assert Climbed.from_record(found.to_record()) == found


def test_what_needs_more_than_the_cell_as_it_is_is_nothing_to_go_on_by() -> None:
    climbing = climb(FACTS, TriedPlan(100, 100), FitLimits(50, 50), [Saves("one", 1)])

    next(climbing)
    with pytest.raises(StopIteration) as end:
        climbing.send(TriedPlan(low=100, need=110))

    assert end.value.value.plan is None and end.value.value.least is None


def test_one_that_fits_only_with_its_margin_gets_the_most_that_can_be_done() -> None:
    climbing = climb(FACTS, TriedPlan(100, 150), FitLimits(50, 50), [Saves("one", 5)])

    plan = next(climbing)
    with pytest.raises(StopIteration) as end:
        climbing.send(TriedPlan(low=50, need=75))

    climbed = end.value.value
    assert plan.words == "one 5 of 5" and climbed.plan.words == "one 5 of 5"
    assert climbed.steps[-1].needs == "50 B to 75 B", "the device has 50"
    assert ": trains there by one 5 of 5: 50 B to 75 B, about" in trains_by(Climbed.from_record(climbed.to_record()))


def test_what_fits_with_its_margin_comes_before_what_is_quicker_and_only_may_fit() -> None:
    climbing = climb(FACTS, TriedPlan(100, 150, seconds=1), FitLimits(50, 50), [Saves("one", 1), Saves("two", 1)])

    asked = [next(climbing), climbing.send(TriedPlan(low=45, need=75, slower=1.05, seconds=1.05))]
    with pytest.raises(StopIteration) as end:
        climbing.send(TriedPlan(low=30, need=50, slower=2, seconds=2))

    assert [plan.words for plan in asked] == ["one 1 of 1", "one 1 of 1 and two 1 of 1"]
    assert end.value.value.plan.words == "one 1 of 1 and two 1 of 1"


@given(some.integers(1, 40), some.integers(0, 99))
def test_it_never_chooses_what_does_not_fit_nor_more_than_it_must_by_far(count: int, room: int) -> None:
    found = Trials(room=room).through(Saves("one", count), plain=10 * count + 5)

    fits = [notch for notch in range(1, count + 1) if 10 * count + 5 - 10 * notch <= room]
    assert (found.plan is None) == (not fits)
    if found.plan is not None:
        assert found.plan.parts["one"] in fits and found.plan.parts["one"] <= min(fits) + 1


def test_what_is_left_for_one_that_runs_out_all_the_same() -> None:
    rungs = [Saves("one", 8), Saves("two", 1)]
    as_it_was = lower(FACTS, Plan(), rungs)
    found = Trials(room=35).through(*rungs)
    assert found.plan is not None

    assert [plan.words for plan in as_it_was] == ["one 4 of 8", "one 8 of 8", "one 8 of 8 and two 1 of 1"]
    assert [plan.words for plan in lower(FACTS, found.plan, rungs)] == ["one 8 of 8", "one 8 of 8 and two 1 of 1"]
    assert lower(FACTS, as_it_was[-1], rungs) == ()


def part(path: str, order: int, kept: int, hands_on: int = 1, why_not: str = "") -> ModelPart:
    return ModelPart(name=path, model="m", path=path, order=order, kept=kept, hands_on=hands_on, why_not=why_not)


def test_a_model_is_cut_where_the_peak_is_least() -> None:
    """Not at the whole model, which is in memory at once, nor at the layers, which hand on all that they keep."""
    layers = [part(f"blocks.{i}.{j}", 10 * i + j + 1, 10, 10) for i in range(4) for j in range(5)]
    blocks = [part(f"blocks.{i}", 10 * i, 50, 10) for i in range(4)]

    chosen = blocks_of([part("", 0, 200), *layers, *blocks])

    assert [block.path for block in chosen] == ["blocks.0", "blocks.1", "blocks.2", "blocks.3"]


def test_one_that_must_not_run_twice_bars_all_around_it_and_nothing_beside_it() -> None:
    parts = [
        part("", 0, 200),
        *(part(f"blocks.{i}", 10 * i, 50, 10) for i in range(3)),
        part("blocks.1.cache", 11, 1, why_not="its forward changes self.cache"),
    ]

    assert [block.path for block in blocks_of(parts)] == ["blocks.0", "blocks.2"]


def test_what_bars_itself_alone_bars_nothing_around_it() -> None:
    in_place = replace(part("blocks.1.act", 11, 1, why_not="its forward changes in place what it is given"), alone=True)
    parts = [part("", 0, 200), *(part(f"blocks.{i}", 10 * i, 50, 10) for i in range(3)), in_place]

    assert [block.path for block in blocks_of(parts)] == ["blocks.0", "blocks.1", "blocks.2"]
    assert in_place.bars(in_place) and not in_place.bars(parts[2]) and not parts[2].bars(parts[2])


@pytest.mark.parametrize(
    ("kept", "why"),
    [(50, "blocks.0.act cannot run twice: it prints"), (10, "no part of the model keeps much more than it hands on")],
)
def test_it_is_named_where_it_alone_stands_in_the_way(kept: int, why: str) -> None:
    blocks = [part(f"blocks.{i}", 10 * i, kept, 10) for i in range(3)]
    bars = [part(f"{block.path}.act", block.order + 1, 1, why_not="it prints") for block in blocks]

    assert recompute.why_not(Facts((part("", 0, 200), *blocks, *bars))) == why


def test_a_rung_takes_back_those_whose_work_it_does() -> None:
    trials = Trials(room=55)
    much, replaced = Saves("recompute", 2), Saves("states", 2)
    whole = Saves("spill", 3, REPLACES=("states",))

    found = trials.through(much, replaced, whole)

    assert found.plan is not None and found.plan.words == "recompute 2 of 2 and spill 3 of 3"
    assert "recompute 2 of 2 and states 2 of 2" in trials.asked


def test_a_rung_that_did_little_is_left_out_of_what_follows() -> None:
    found = Trials(room=965).through(Saves("little", 1), Saves("spill", 4), plain=1000)

    assert found.plan is not None and found.plan.words == "spill 4 of 4"


def test_what_is_left_under_a_plan_holds_what_the_plan_has_and_nothing_that_it_left_out() -> None:
    rungs: list[Rung] = [Saves("recompute", 2), Saves("states", 2), Saves("spill", 2, REPLACES=("states",))]
    states = Plan().under(rungs[1], rungs[1].notches(FACTS)[0])

    assert [plan.words for plan in lower(FACTS, states, rungs)] == [
        "states 2 of 2",
        "spill 1 of 2",
        "spill 2 of 2",
    ]
    assert [plan.words for plan in lower(FACTS, Plan(), rungs)][-1] == "recompute 2 of 2 and spill 2 of 2"


def test_a_plan_that_takes_more_of_the_host_than_there_is_does_not_fit() -> None:
    limits = FitLimits(50, 50, host=10)

    assert limits.fits(TriedPlan(40, 40, host=10)) and not limits.fits(TriedPlan(40, 40, host=11))
    assert not limits.may_fit(TriedPlan(40, None, host=11))


def test_what_a_trial_run_took_of_the_host_is_reserved_for_the_run() -> None:
    plan = Plan({"spill": {"room": 3, "host": 0}, "recompute": {"model": ["a"]}}, "spilling")

    priced = plan.priced(TriedPlan(1, 1, 1.1, moves=20, host=7))

    assert priced.parts == {"spill": {"room": 3, "host": 7}, "recompute": {"model": ["a"]}}
    assert Plan.from_record(priced.to_record()) == priced
    said = "about 1.1x the time, 20 B a step to the host and back, 7 B of the host's memory, the same result to the bit"
    assert priced.cost == said


def test_the_quickest_is_chosen_and_the_search_ends_where_nothing_can_gain_a_tenth() -> None:
    def found(*seconds: float, exact: bool = True) -> tuple[str, list[str]]:
        rungs = [Saves("one", 1), Saves("two", 1), Saves("three", 1, EXACT=exact)]
        climbing = climb(FACTS, TriedPlan(100, 100, seconds=1.0), FitLimits(95, 95), rungs)
        asked: list[str] = []
        tried: TriedPlan | None = None
        while True:
            try:
                plan = climbing.send(tried) if tried else next(climbing)
            except StopIteration as end:
                assert end.value.plan is not None and end.value.plan.seconds == min(seconds[: len(asked)])
                return end.value.plan.words, asked
            asked.append(plan.words)
            time = seconds[len(asked) - 1]
            tried = TriedPlan(90, 90, time, time)

    assert found(1.05, 1.0, 1.0) == ("one 1 of 1", ["one 1 of 1"])
    assert found(1.5, 1.2, 1.3) == ("two 1 of 1", ["one 1 of 1", "two 1 of 1", "three 1 of 1"])
    assert found(1.5, 1.2, 1.1, exact=False) == ("two 1 of 1", ["one 1 of 1", "two 1 of 1"]), "no other bits for time"


def test_one_of_which_nobody_can_tell_the_time_is_not_the_quickest() -> None:
    rungs = [Saves("one", 1), Saves("two", 1)]
    climbing = climb(FACTS, TriedPlan(100, 100, seconds=1.0), FitLimits(95, 95), rungs)
    next(climbing)
    climbing.send(TriedPlan(90, 90, 1.5, 1.5))

    with pytest.raises(StopIteration) as end:
        climbing.send(TriedPlan(90, 90, 1.5, 0.0))

    assert end.value.value.plan.words == "one 1 of 1"
