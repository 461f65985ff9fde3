"""A training gives its device back when its turn is over, when it lies idle (as the policy says), or by root's order.

Its worker does so by itself: nobody else could, nor ends what they did not start. It says so ahead, in the cell and in
the job's record, saves, and queues again; one that lay idle is released, and goes on when its user resumes it. What
cannot be saved holds on, if the policy lets it; else it is told, and then interrupted as by its user's own stop.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import psutil

from ..errors import DeviceError
from ..estimate.need import Needed
from ..jobs.handover import Handover
from ..lab import Granted
from ..lab.grant import sort_out
from ..lab.happenings import note_happening
from ..lab.policy import Policy, UserPolicy
from ..lab.policy_file import load_policy
from ..lab.quanta import PATIENCE, TurnOver, ends_at_the_earliest, turns_over
from ..lab.reasons import whose
from ..lab.standing import Standing, StandingFile
from ..lab.view import LabReader
from ..lab.wishes import is_ordered
from ..train import Released, Requeued
from ..units import device_words, format_duration
from .lifecycle import Asked, Warned, refusal
from .save_wish import Leave
from .saving import Saver
from .training import Training

EVERY = 5.0  # seconds between two looks where nothing is near: the policy may have changed
SOON = 1.0  # seconds between two looks before the cell runs, and while something is
SAMPLE = 30.0  # seconds of computing that are looked at together
COMPUTES = 0.1  # of one processor: below, it waits for something

Cause = Literal["turn", "idle", "order"]


def processor_seconds() -> float:
    """What this process and its children have computed."""
    total = time.process_time()
    for child in psutil.Process().children(recursive=True):
        try:
            used = child.cpu_times()
        except psutil.Error:
            continue
        total += used.user + used.system
    return total


@dataclass
class Activity:
    """Since when a training has computed nothing: no step of an optimizer, and hardly any time of a processor."""

    sample: float = SAMPLE  # seconds
    cpu: Callable[[], float] = processor_seconds
    since: float | None = None  # seconds since 1970
    _looked: float = 0.0
    _step: int = -1
    _used: float = 0.0

    def look(self, now: float, step: int) -> float:
        """Since when, as of now."""
        if self.since is None or now - self._looked >= self.sample:
            used, long = self.cpu(), now - self._looked
            if self.since is None or step != self._step or abs(used - self._used) > COMPUTES * long:
                self.since = now
            self._looked, self._step, self._used = now, step, used
        return self.since


@dataclass
class Leaving:
    """Why the training is to leave, and when."""

    cause: Cause
    words: str
    at: float  # seconds since 1970
    asked: float | None = None  # since when it is being saved for that
    stops: float | None = None  # when it is stopped, since it cannot be saved


@dataclass
class TurnTaking:
    """Of one training's stay on its devices."""

    training: Training
    granted: Granted
    saver: Saver
    activity: Activity = field(default_factory=Activity)
    leaving: Leaving | None = None
    stays: float = 0.0  # seconds since 1970: until then it is not asked again, since it could not be saved
    failed: bool = False
    said: bool = False  # that something is wrong

    def __post_init__(self) -> None:
        self._reader, self._file = LabReader(self.granted.lab), StandingFile(self.granted.lab.path)

    def close(self) -> None:
        """Nothing more is said of the claim."""
        self._file.drop()

    async def look(self) -> float:
        """Do what the policy says now; in how many seconds to look again, if nothing happens in the lab."""
        try:
            return await self._look()
        except OSError:  # the lab is gone: its holder says so, and comes back
            return EVERY
        except Exception as error:  # of ours: no reason to end a training
            if not self.said:
                self.training.defect(error)
            self.said = True
            return EVERY

    async def _look(self) -> float:
        if not self.training.life.runs:
            return SOON
        policy, now = load_policy(), time.time()
        mine = policy.of(os.geteuid())
        self.activity.sample = min(SAMPLE, mine.idle / 10)
        idle = self.activity.look(now, self.training.steps.step)
        if self.leaving is None and now >= self.stays:
            self.leaving = await self._to_leave(policy, mine, idle, now)
            if self.leaving is not None:
                self._warn(self.leaving, now)
        elif self.leaving is not None:
            await self._go_on_leaving(self.leaving, policy, mine, idle, now)
        is_idle = now - idle >= mine.idle
        self._tell(idle if is_idle else None, now)
        return self._again(policy, mine, idle, now)

    # What is to be done ----------------------------------------------------------------------------------------------

    async def _to_leave(self, policy: Policy, mine: UserPolicy, idle: float, now: float) -> Leaving | None:
        if is_ordered(self.granted.lab.path, self.granted.claim):
            return Leaving("order", "the lab's administrator wants its device", now + policy.notice)
        if mine.longest_idle is not None and now + policy.notice >= idle + mine.longest_idle:
            at = max(idle + mine.longest_idle, now + policy.notice)
            return Leaving("idle", f"it has computed nothing for {format_duration(now - idle)}", at)
        if (over := await self._over(policy, now)) is None:
            return None
        return Leaving("turn", self._words(over), now + policy.notice)

    async def _over(self, policy: Policy, now: float) -> TurnOver | None:
        """Whether its turn is over, as of when the notice has passed."""
        end, drained = ends_at_the_earliest(self.granted.claim, policy), any(map(policy.drains, self.granted.devices))
        if not drained and (end is None or end > now + policy.notice):
            return None
        snapshot = self._reader.snapshot()
        if not drained and all(ticket.uid == os.geteuid() for ticket in snapshot.tickets):
            return None
        try:
            spaces = sort_out(await self.training.look(), snapshot.claims)
        except DeviceError:
            return None  # the driver may answer the next time
        holding = self._reader.holding(snapshot, spaces, policy, now)
        return turns_over(holding, now + policy.notice).get(self.granted.claim.id)

    def _words(self, over: TurnOver) -> str:
        if over.ticket is None:
            where = device_words([device.label for device in self.granted.devices])
            return f"{where} {'is' if len(self.granted.devices) == 1 else 'are'} drained by the lab's policy"
        return f"{whose(over.ticket.uid, os.geteuid())} {over.ticket.request.name} waits"

    async def _go_on_leaving(self, leaving: Leaving, policy: Policy, mine: UserPolicy, idle: float, now: float) -> None:
        if leaving.asked is not None:
            self._look_after_saving(leaving, policy, mine, now)
        elif not await self._still(leaving, policy, mine, idle, now):
            self._stay("nothing more is asked of it")
        elif now >= leaving.at and refusal(self.training.life, "turn") is None:
            self._leave(leaving, now)

    async def _still(self, leaving: Leaving, policy: Policy, mine: UserPolicy, idle: float, now: float) -> bool:
        if leaving.cause == "order":
            return True
        if leaving.cause == "idle":
            return mine.longest_idle is not None and now + policy.notice >= idle + mine.longest_idle
        return await self._over(policy, now) is not None

    def _leave(self, leaving: Leaving, now: float) -> None:
        training, name, words = self.training, self.training.name, leaving.words
        leaving.asked, self.failed = now, False

        def released(step: int) -> Leave:
            note_happening(self.granted.lab.path, leaving.cause)
            return Released(f"released at step {step:,}, since {words}; `%gpufit resume {name}` goes on")

        def requeued(step: int) -> Leave:
            note_happening(self.granted.lab.path, "turn")
            whole = self.granted.alone and self.granted.claim.request.needed is None
            reason = f"its turn ended at step {step:,}, since {words}; it goes on from there"
            return Requeued(Needed(None if whole else self.granted.bytes, reason))

        if leaving.cause == "turn":
            training.take(Asked("turn", f"its turn is over: {words}. It is saved at its next safe point"))
            self.saver.ask("turn", requeued, self._fail)
        else:
            training.take(Asked("release"))
            self.saver.ask("release", released, self._fail)

    def _fail(self) -> None:
        """It cannot be saved; why stands in the journal."""
        self.failed = True

    def _look_after_saving(self, leaving: Leaving, policy: Policy, mine: UserPolicy, now: float) -> None:
        assert leaving.asked is not None
        name, late = self.training.name, now > leaving.asked + PATIENCE
        if leaving.stops is not None:
            if now >= leaving.stops:
                self.training.note(
                    f"{name} is stopped: {leaving.words}. It cannot be saved, and the lab's policy lets no such job"
                    " keep its device."
                )
                self.training.take(Asked("interrupt"))
                leaving.stops = now + PATIENCE
        elif not (self.failed or late):
            return
        elif not mine.holds_on:
            leaving.stops = now + policy.notice
            self.training.note(
                f"{name} cannot be saved, and the lab's policy lets no such job keep its device. It is stopped"
                f" {_at(leaving.stops)}: {leaving.words}. Its variables come back as they are then."
            )
        elif self.failed:
            self.stays = now + max(PATIENCE, mine.quantum or mine.longest_idle or 0.0)
            self._stay("it cannot be saved, and the lab's policy lets it keep its device")

    # What is said -----------------------------------------------------------------------------------------------------

    def _warn(self, leaving: Leaving, now: float) -> None:
        what = "is saved and queues again, to go on" if leaving.cause == "turn" else "is saved and released"
        when = _at(leaving.at)
        self.training.note(
            f"{self.training.name} {what}, {when} (in {format_duration(leaving.at - now)}): {leaving.words}."
        )
        if leaving.cause == "idle":
            self.training.note(f"Let it compute, or release it before: %gpufit release {self.training.name}")
        self.training.take(Warned(f"{what}, {when}: {leaving.words}"))

    def _stay(self, why: str) -> None:
        self.leaving = None
        self.training.note(f"{self.training.name} goes on where it is: {why}.")
        self.training.take(Warned(""))

    def _tell(self, idle: float | None, now: float) -> None:
        leaving = self.leaving
        late = leaving is not None and leaving.asked is not None and now > leaving.asked + PATIENCE
        yields = now >= self.stays and not late
        gives = yields and leaving is None and self.training.gives
        self._file.tell(self.granted.claim.id, Standing(yields, leaving.at if leaving else None, idle, gives))

    def _again(self, policy: Policy, mine: UserPolicy, idle: float, now: float) -> float:
        if self.leaving is not None:
            return min(SOON, max(0.05, self.leaving.at - now))
        moments = [idle + mine.idle, now + EVERY]
        if mine.longest_idle is not None:
            moments.append(idle + mine.longest_idle - policy.notice)
        if (end := ends_at_the_earliest(self.granted.claim, policy)) is not None:
            moments.append(end - policy.notice)
        return min(max(SOON, moment - now) if moment > now else EVERY for moment in moments)


def _at(moment: float) -> str:
    return f"at {time.strftime('%H:%M:%S', time.localtime(moment))}"


def for_another_turn(handover: Handover, left: Requeued) -> Handover:
    """As what the next image waits, and goes on."""
    needed = left.needed
    start = replace(handover, claim=None, needed=needed.memory, why=needed.reason)
    alive = time.time() if left.repeats else 0.0
    return replace(start, path=list(sys.path), resumes=True, repeats=left.repeats, alive_until=alive)
