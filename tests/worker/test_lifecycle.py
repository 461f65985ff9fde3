"""Every order of events leaves a life that keeps its promises; and the few sentences that people rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import get_args

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from jupyter_gpufit.estimate.need import Needed
from jupyter_gpufit.jobs.events import StateChange, Why
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.protocol import Wish
from jupyter_gpufit.jobs.record import LastCheckpoint, Record
from jupyter_gpufit.jobs.state import ENDED, GOING, LEFT, STATES
from jupyter_gpufit.lab import Granted
from jupyter_gpufit.testing import FakeMachine, fake_device, fake_grant
from jupyter_gpufit.train import Finished, Moved, Outcome, Outgrown, Released, Report, Requeued, train
from jupyter_gpufit.worker.lifecycle import (
    DEVICES,
    OVER,
    PHASES,
    TABLE,
    Asked,
    CellLeft,
    CellRuns,
    Close,
    Delayed,
    Effect,
    Event,
    Life,
    Over,
    Phase,
    Reached,
    Settled,
    Tell,
    Verb,
    Warned,
    after,
    refusal,
    told,
)

JOB = Job(id="abc234", name="bert", source="pass", created=0.0, cwd="/")
SAVED = Released("released at step 3")
OUTCOMES = (
    *(Finished("done"), Finished("failed", "KeyError"), Finished("stopped"), SAVED),
    *(
        Moved(fake_grant(fake_device())),
        Outgrown(Needed(None, "more"), "more"),
        Requeued(Needed(None, "its turn ended")),
    ),
)
EVENTS: tuple[Event, ...] = (
    *(Reached(StateChange(state, device="0")) for state in ("estimating", "queued", "starting", "running")),
    CellRuns(),
    *(Asked(verb, to="1", place=SAVED) for verb in get_args(Verb)),
    Delayed("waiting"),
    *(Warned("its turn ends"), Warned("")),
    *(Settled(why, durable) for why in get_args(Why) for durable in (True, False)),
    *(CellLeft(outcome) for outcome in (*OUTCOMES, None)),
    *(Over(outcome, suspended) for outcome in OUTCOMES[:4] for suspended in (False, True)),
)


def lived(*events: Event, begin: Life | None = None) -> Life:
    life = begin or Life()
    for event in events:
        life, _ = after(life, event)
    return life


def in_phase(phase: Phase) -> Life:
    return Life(phase, device="0")


TAKEN = {phase: [one for one in EVENTS if after(in_phase(phase), one) != (in_phase(phase), ())] for phase in PHASES}


@pytest.mark.slow
@settings(deadline=None)
@given(some.data())
def test_any_order_of_events(data: some.DataObject) -> None:
    life = in_phase(data.draw(some.sampled_from(("begun", "arriving"))))
    for _ in range(data.draw(some.integers(1, 40))):
        life = keeps_its_promises(life, data.draw(some.sampled_from((*EVENTS, *TAKEN[life.phase] * 2))))


@pytest.mark.parametrize("phase", PHASES)
def test_every_event_in_every_phase(phase: Phase) -> None:
    for event in EVENTS:
        keeps_its_promises(in_phase(phase), event)


def keeps_its_promises(life: Life, event: Event) -> Life:
    """What follows."""
    following, effects = after(life, event)
    read = told(life.phase)  # by everybody
    for effect in effects:
        read = effect.change.state if isinstance(effect, Tell) else read
        read = effect.state if isinstance(effect, Close) else read
    if life.phase == "resting" and following.phase == "begun":
        read = "starting"  # noted with the next epoch, under the job's lock
    # One that lost a rank stands still from this moment on, without a word before that.
    assert read == told(following.phase) or following.phase in ("ending", "outgrown", "requeued"), (life, event)
    if life.phase in OVER:
        assert (following, effects) == (life, ())
    if isinstance(event, Asked):
        is_told_or_done(life, event.verb, following, effects)
    holds_what_it_claimed(DEVICES.get(life.phase, 0), DEVICES.get(following.phase, 0), event, following)
    return following


def is_told_or_done(life: Life, verb: Verb, following: Life, effects: Sequence[Effect]) -> None:
    """What is refused changes nothing; what is accepted is under way already, or begins."""
    if refusal(life, verb) is not None:
        assert (following, effects) == (life, ())
    else:
        on_its_way_out = life.phase in ("releasing", "moving", "changing", "leaving")
        assert effects or following != life or on_its_way_out or following.given_up is not None


def holds_what_it_claimed(before: int, now: int, event: Event, following: Life) -> None:
    """A device comes from the queue, a second one by a move; they go with the move, the cell or the end."""
    match before, now:
        case (0, 1):
            assert isinstance(event, Reached)
        case (1, 2):
            assert event in (Asked("move", to="1", place=SAVED), Asked("change", to="1", place=SAVED))
        case (2, 1):
            gives_way = isinstance(event, Asked) and event.verb in ("release", "turn")
            assert isinstance(event, Settled | CellLeft) or gives_way
        case (1 | 2, 0):
            assert isinstance(event, Over) or following.phase == "queued"
        case _:
            assert before == now


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_has_a_way_in_and_a_way_to_an_end(phase: Phase) -> None:
    reached = {"begun", "arriving"}
    while more := {after(in_phase(one), event)[0].phase for one in reached for event in EVENTS} - reached:  # type: ignore[arg-type]
        reached |= more
    assert phase in reached
    there = {after(in_phase(phase), event)[0].phase for event in EVENTS}
    assert phase in OVER or there & OVER


def test_each_state_but_lost_is_told_and_the_table_has_every_phase() -> None:
    assert {told(phase) for phase in PHASES} == set(STATES) - {"lost"}
    assert set(TABLE) == set(PHASES)
    assert {told(phase) for phase in OVER} == LEFT


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("wish", get_args(Wish))
def test_the_worker_refuses_what_the_fronts_refuse(wish: Wish, phase: Phase) -> None:
    """A permission is one function; the table knows besides what a front cannot see."""
    record = Record(state=told(phase), since=0.0, checkpoint=LastCheckpoint(3, 0.0, 1))
    if record.why_not(wish):
        return  # the worker asks this first: wishes.py
    if refusal(in_phase(phase), wish) is not None:
        assert phase not in (*OVER, "begun", "estimating", "queued", "starting", "running", "saving")


@pytest.mark.parametrize("phase", [phase for phase in PHASES if told(phase) in GOING])
@pytest.mark.parametrize("wish", get_args(Wish))
def test_a_wish_that_is_accepted_is_answered_by_an_end_or_a_settling(wish: Wish, phase: Phase) -> None:
    if refusal(in_phase(phase), wish) is not None:
        return
    wished = lived(Asked(wish, "1"), begin=in_phase(phase))
    assert lived(CellLeft(Finished("done")), Over(Finished("done")), begin=wished).phase in ENDED | LEFT
    if wished.runs:
        why: Why = "asked" if wished.phase == "saving" else "release" if wished.phase == "releasing" else "move"
        assert lived(Settled(why, durable=False), begin=wished).phase == "running"


@dataclass
class Machine(FakeMachine):
    """Has its steps happen to a life, and counts the devices it holds."""

    life: Life = field(default_factory=Life)
    held: int = 0

    def take(self, *events: Event) -> None:
        for event in events:
            self.life, _ = after(self.life, event)
            assert DEVICES.get(self.life.phase, 0) == self.held, self.life

    @asynccontextmanager
    async def claim(self, job: Job, needed: Needed, report: Report) -> AsyncIterator[Granted]:
        async with super().claim(job, needed, report) as granted:
            self.held = 1
            report(StateChange("starting"))
            yield granted
        self.held -= 1

    async def run(self, job: Job, granted: Granted) -> Outcome:
        self.take(CellRuns())
        if isinstance(self.outcomes[0], Moved | Released):
            moves = isinstance(self.outcomes[0], Moved)
            self.held += moves
            self.take(Asked("move" if moves else "release", "1"), Settled("move" if moves else "release", durable=True))
        if isinstance(self.outcomes[0], Requeued):
            self.take(Warned("soon"), Asked("turn", "now"), Settled("turn", durable=True))
        outcome = await super().run(job, granted)
        self.take(CellLeft(outcome))
        return outcome

    async def go_on(self, left: Moved | Outgrown | Requeued) -> None:
        await super().go_on(left)
        if isinstance(left, Moved):
            self.life = Life("arriving", resumes=True)  # the next image's


@pytest.mark.parametrize("last", [Finished("done"), SAVED])
def test_it_holds_what_its_phase_says_from_step_to_step(last: Finished | Released) -> None:
    machine = Machine(outcomes=[OUTCOMES[4], OUTCOMES[5], OUTCOMES[6], last])
    anyio.run(train, JOB, machine, lambda change: machine.take(Reached(change)))
    machine.take(Over(last))
    assert machine.life.phase in OVER


def test_a_release_that_comes_to_nothing_is_not_on_its_way_out_any_more() -> None:
    life = lived(Asked("release"), Settled("automatic", durable=True), begin=in_phase("running"))
    assert refusal(life, "move") is not None and told(life.phase) == "saving"
    life, effects = after(life, Settled("release", durable=False))
    assert effects == (Tell(StateChange("running", device="0")),) and refusal(life, "move") is None


def test_a_turn_is_told_ahead_and_one_that_comes_to_nothing_goes_on() -> None:
    life, effects = after(in_phase("running"), Warned("its turn ends at 14:05"))
    assert effects == (Tell(StateChange("running", "its turn ends at 14:05", "0")),)
    life, effects = after(life, Asked("turn", "its turn is over"))
    assert effects == (Tell(StateChange("saving", "its turn is over", "0")),) and refusal(life, "release") is None
    assert lived(Settled("turn", durable=False), begin=life).phase == "running"
    assert lived(Settled("turn", durable=True), CellLeft(OUTCOMES[6]), begin=life).phase == "requeued"


def test_a_change_of_its_own_gives_way_to_who_wants_something_else() -> None:
    life, effects = after(in_phase("running"), Asked("change", "to go on on 4 devices"))
    assert effects == (Tell(StateChange("saving", "to go on on 4 devices", "0")),)
    assert lived(Asked("release"), begin=life).phase == lived(Asked("turn", "now"), begin=life).phase == "releasing"
    assert refusal(life, "move") is not None and refusal(life, "checkpoint") is None
    assert lived(Settled("move", durable=False), begin=life).phase == "running"
    life, effects = after(lived(Settled("move", durable=True), begin=life), CellLeft(OUTCOMES[4]))
    assert life.phase == "crossing" and effects == (Tell(StateChange("moving", device="0")),)


def test_a_cell_that_has_ended_keeps_its_end() -> None:
    life = lived(
        CellLeft(Finished("done")), Asked("interrupt"), Asked("release", place=SAVED), begin=in_phase("running")
    )
    assert life.given_up is None and lived(Over(Finished("done")), begin=life).phase == "done"


def test_one_that_moved_tells_nothing_until_it_runs() -> None:
    life = in_phase("arriving")
    for state in ("estimating", "queued", "starting"):
        life, effects = after(life, Reached(StateChange(state)))
        assert effects == ()
    life, effects = after(life, Reached(StateChange("running", device="1")))
    assert effects == (Tell(StateChange("running", device="1")),)


@pytest.mark.parametrize(("resumes", "began"), [(False, "began"), (True, "went on")])
def test_an_interrupt_before_the_cell_ends_the_waiting(resumes: bool, began: str) -> None:
    life = Life("queued", resumes=resumes)
    following, effects = after(life, Asked("interrupt"))
    assert following.given_up == Finished("stopped", f"stopped before it {began}") and effects == ()
    assert lived(Over(following.given_up), begin=following).phase == "stopped"
