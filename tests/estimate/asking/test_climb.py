"""How long a plan is looked for: no user is helped by a search that ends in time, and a job that runs out of memory."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from jupyter_gpufit.devices.cards import Context
from jupyter_gpufit.estimate.asking.ask import FOR_A_PLAN, Ask, TraceAnswer
from jupyter_gpufit.estimate.asking.climb import NO_TIME, RAN_OUT, PlanTrial, climbed
from jupyter_gpufit.estimate.reckoning.record import Read
from jupyter_gpufit.estimate.reckoning.report import Estimate
from jupyter_gpufit.fit.plan import AS_IT_IS, Facts, FitLimits, ModelPart, Plan
from jupyter_gpufit.units import MiB
from tests.estimate.traced import A100

LIMIT = 20.0
ASK = Ask(card=A100, context=Context(0, 0, ""), limit=LIMIT, limits=FitLimits(100 * MiB, 100 * MiB))
BLOCKS = tuple(
    ModelPart(name=f"model.{n}", model="m", path=str(n), order=n + 1, kept=10 * MiB, hands_on=MiB) for n in range(4)
)
FACTS = Facts(
    (ModelPart(name="model", model="m", path="", order=0), *BLOCKS),
    peak=200 * MiB,
    largest=2 * MiB,
    states=20 * MiB,
    largest_state=2 * MiB,
)


@dataclass
class Trials:
    """Trial runs that take as long as is said, on a clock of their own."""

    takes: float  # seconds of each under a plan
    needs: dict[str, int]  # MiB, of plans by a word in theirs; of others more than there is
    late: tuple[float, float] | None = None  # of the first: what it sees in its limit, in MiB, and how long it takes
    now: float = 0.0
    tried: list[str] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    told: list[str] = field(default_factory=list)

    def __call__(self, plan: Plan, limit: float) -> PlanTrial:
        self.tried.append(plan.words)
        self.limits.append(limit)
        takes = self.takes if plan.parts else self.late[1] if self.late else 1.0
        self.now += min(takes, limit)
        seen = self.late[0] if self.late and not plan.parts and takes > limit else None
        need = next((mib for word, mib in self.needs.items() if word in plan.words), 200)
        low = int((need if seen is None else seen) * MiB)
        estimate = Estimate(
            card="",
            card_total=1 << 40,
            how="trace" if seen is None else "nothing",
            context=0,
            low=low,
            need=low if seen is None else None,
        )
        answer = TraceAnswer(estimate=estimate, read=Read())
        why = f"It took more than {limit:g} s." if plan.parts and takes > limit else ""
        return PlanTrial(answer, FACTS, why, late=takes > limit)

    def search(self, ask: Ask = ASK) -> TraceAnswer:
        return climbed(ask, self, self.told.append)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[Trials]:
    used: list[Trials] = []
    monkeypatch.setattr("time.monotonic", lambda: used[0].now)
    return used


def test_until_one_fits_the_search_takes_longer_than_an_estimate_and_says_what_it_tries(clock: list[Trials]) -> None:
    trials = Trials(takes=0.9 * LIMIT, needs={"spilling": 60})
    clock.append(trials)

    found = trials.search()

    assert found.climbed is not None and found.climbed.plan is not None
    assert "spilling" in found.climbed.plan.words and trials.now > 2 * LIMIT
    assert trials.told == [
        f"needs 200.0 MiB, and the largest device has 100.0 MiB: tries {words}" for words in trials.tried[1:]
    ]
    assert min(trials.limits) >= LIMIT and max(trials.limits) <= FOR_A_PLAN * LIMIT


def test_once_one_fits_nobody_waits_longer_for_a_better_one(clock: list[Trials]) -> None:
    trials = Trials(takes=1.1 * LIMIT, needs={"recomputing 4 of 4": 60, "recomputing": 110})
    clock.append(trials)

    found = trials.search()

    assert found.climbed is not None and found.climbed.plan is not None
    assert found.climbed.plan.words == "recomputing 4 of 4 blocks" and trials.now < 3 * LIMIT


def test_what_was_cut_off_is_not_kept_for_another_time_and_leaves_the_last_rung_untried(clock: list[Trials]) -> None:
    trials = Trials(takes=6 * LIMIT, needs={})
    clock.append(trials)

    found = trials.search()

    assert found.climbed is not None and found.climbed.plan is None and found.read is None
    assert any(step.why == NO_TIME for step in found.climbed.steps)
    assert len(found.lower) == 1 and "spill" in found.lower[0].parts
    assert trials.now <= ASK.patience


def test_a_search_that_came_to_its_end_is_kept(clock: list[Trials]) -> None:
    trials = Trials(takes=0.1, needs={})
    clock.append(trials)

    found = trials.search()

    assert found.climbed is not None and found.climbed.plan is None and found.read == Read()


@pytest.mark.parametrize(("seen", "goes_on"), [(150, True), (50, False)])
def test_a_trial_run_that_is_late_goes_on_where_it_has_shown_that_the_cell_does_not_fit(
    clock: list[Trials], seen: int, goes_on: bool
) -> None:
    trials = Trials(takes=1.0, needs={"recomputing 4 of 4": 60}, late=(seen, 2 * LIMIT))
    clock.append(trials)

    found = trials.search()

    assert (found.climbed is not None and found.climbed.plan is not None) == goes_on
    assert trials.limits[:2] == ([LIMIT, FOR_A_PLAN * LIMIT] if goes_on else [LIMIT])
    assert ("needs 150.0 MiB" in trials.told[0]) if goes_on else not trials.told


def test_what_was_cut_off_and_runs_out_has_a_rung_left_and_takes_its_time_the_next_time(clock: list[Trials]) -> None:
    def trials() -> Trials:
        made = Trials(takes=1.0, needs={"recomputing 4 of 4": 60}, late=(50, 2 * LIMIT))
        clock[:] = [made]
        return made

    found = trials().search()

    assert found.climbed is None and [[*plan.parts] for plan in found.lower] == [["recompute", "spill"]]

    again = trials()
    found = again.search(replace(ASK, ran_out=(AS_IT_IS,)))

    assert again.limits[:2] == [LIMIT, FOR_A_PLAN * LIMIT] and again.told[0].startswith(RAN_OUT)
    assert found.climbed is not None and found.climbed.plan is not None


def test_no_search_takes_longer_than_it_is_waited_for(clock: list[Trials]) -> None:
    for takes in (0.9, 1.1, 2.5, 4.9, 6.0):
        trials = Trials(takes=takes * LIMIT, needs={}, late=(150, 4.9 * LIMIT))
        clock[:] = [trials]
        trials.search()
        assert trials.now <= ASK.patience
