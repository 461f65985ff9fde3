"""A lab of many users in a time of its own: the product's own decisions, moment by moment, without files or processes.

Who comes first (`fair_order`), who may start (`everyones_turn`) and whose turn is over (`turns_over`) are the functions
that every waiter and every holder calls; here they are called with a clock that jumps. The users, their jobs, and how
long a save takes are made up. Two other ways to share are played with the same users: first in, first out, and whoever
grabs first.
"""

from __future__ import annotations

import random
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab.ends import End
from jupyter_gpufit.lab.foresee import TurnFacts, foresee
from jupyter_gpufit.lab.foreseen import Foreseen
from jupyter_gpufit.lab.order import decayed_seconds, fair_order, used_by_user
from jupyter_gpufit.lab.place import Space, place, rooms
from jupyter_gpufit.lab.policy import Policy
from jupyter_gpufit.lab.quanta import Holding, turns_over
from jupyter_gpufit.lab.record import Claim, Hold, Ticket
from jupyter_gpufit.lab.standing import Standing
from jupyter_gpufit.lab.turn import Go, everyones_turn
from jupyter_gpufit.units import GiB
from tests.lab.values import SECOND, slots, ticket

Way = Literal["turns", "no turns", "first in, first out", "who grabs first"]
DEVICE = 16  # GiB
LOOK = 5.0  # seconds between two looks of the holders
POLLS = 10.0  # seconds between two looks of somebody who waits to grab a device
SAVE, RESTORE = 5.0, 10.0  # seconds that a turn's end and the next one's begin take of the device


@dataclass
class SimulatedJob:
    """What one user wants computed."""

    user: int
    needed: int | None  # bytes; None: a whole device
    long: float  # seconds of computing
    entered: float
    started: float | None = None
    done: float = 0.0  # seconds of it


@dataclass
class _Run:
    job: SimulatedJob
    claim: Claim
    begun: float  # computing, once what was saved is restored
    leaves: float | None = None  # when it will, as it has said
    free: float | None = None  # when it is saved


@dataclass
class SimulatedUser:
    """Somebody who always has something to compute: some with one job at a time, some with many."""

    uid: int
    enters: float
    backlog: int
    typical: float  # seconds of a job
    sizes: Sequence[int | None]
    used: float = 0.0  # device-seconds


def users_of(count: int, seed: int) -> list[SimulatedUser]:
    """Students with short jobs, researchers with long ones, and a few who enter all that they have at once."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        kind = chance.choices(["short", "long", "many"], [6, 3, 1])[0]
        typical = chance.uniform(900, 7200) if kind == "long" else chance.uniform(60, 600)
        sizes: Sequence[int | None] = chance.choice([(4 * GiB,), (8 * GiB,), (4 * GiB, 8 * GiB), (None,)])
        found.append(SimulatedUser(70001 + number, chance.uniform(0, 300), 20 if kind == "many" else 1, typical, sizes))
    return found


@dataclass
class SimulatedLab:
    """One hour, or another time, of a lab."""

    way: Way
    users: Sequence[SimulatedUser]
    devices: int
    seconds: float
    seed: int
    policy: Policy
    now: float = 0.0
    waiting: dict[str, tuple[Ticket, SimulatedJob]] = field(default_factory=dict)
    running: dict[str, _Run] = field(default_factory=dict)
    past: defaultdict[int, list[tuple[float, float, float]]] = field(default_factory=lambda: defaultdict(list))
    jobs: list[SimulatedJob] = field(default_factory=list)
    turns_ended: int = 0
    foretells: bool = False  # each who has to wait is told when it may start
    foretold: dict[str, tuple[float, Foreseen]] = field(default_factory=dict)  # by ticket: when it was told, and what
    met: list[tuple[float, float, Foreseen]] = field(default_factory=list)  # told, started, and what was told

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.spaces = [Space(device) for device in self._devices()]
        self.policy = self.policy if self.way == "turns" else replace(self.policy, default={})

    def _devices(self) -> list[Device]:
        return slots(*[DEVICE] * self.devices)

    def play(self) -> SimulatedLab:
        """From the first user's entry to the end of the time."""
        entering = sorted(self.users, key=lambda user: user.enters)
        next_look = 0.0
        while self.now < self.seconds:
            while entering and entering[0].enters <= self.now:
                user = entering.pop(0)
                for _ in range(user.backlog):
                    self._enter(user)
            self._end_what_ends()
            if self.way == "turns" and self.now >= next_look:
                self._look_at_turns()
                next_look = self.now + LOOK
            self._start_what_may()
            self._foretell()
            self._check()
            moments = [self.now + LOOK if self.way == "turns" else self.now + POLLS]
            moments += [user.enters for user in entering[:1]]
            moments += [self._end_of(run) for run in self.running.values()]
            self.now = min(max(min(moments), self.now + 0.01), self.seconds)
        for run in list(self.running.values()):
            self._give_back(run)
        return self

    # Users ------------------------------------------------------------------------------------------------------------

    def _enter(self, user: SimulatedUser) -> None:
        long = max(30.0, self.chance.lognormvariate(0, 0.5) * user.typical)
        job = SimulatedJob(user.uid, self.chance.choice(user.sizes), long, self.now)
        self.jobs.append(job)
        self._queue(job)

    def _queue(self, job: SimulatedJob) -> None:
        made = replace(ticket(job.user, 0, job.needed), since=int(self.now * SECOND))
        self.waiting[made.id] = made, job

    # What the lab does ------------------------------------------------------------------------------------------------

    @property
    def claims(self) -> list[Claim]:
        return [run.claim for run in self.running.values()]

    def _used(self) -> dict[int, float]:
        def decayed(start: float, end: float) -> float:
            return decayed_seconds(start, end, half_life=self.policy.half_life, now=self.now)

        past = {uid: sum(s * decayed(a, b) for a, b, s in uses) for uid, uses in self.past.items()}
        return used_by_user(self.claims, past, self.policy, now=self.now)

    def _order(self) -> list[Ticket]:
        tickets = [one for one, _ in self.waiting.values()]
        match self.way:
            case "first in, first out":
                return sorted(tickets, key=lambda one: (one.since, one.tie))
            case "who grabs first":  # each looks for itself, now and then
                self.chance.shuffle(tickets)
                return tickets
        return fair_order(tickets, self._used(), self.policy)

    def _start_what_may(self) -> None:
        queue = self._order()
        if self.way == "who grabs first":
            for one in queue:  # nobody keeps room for anybody
                placement = place(one.request, rooms(self.spaces, self.claims))
                if placement is not None:
                    self._start(one, Go(placement))
            return
        for one, turn in zip(queue, everyones_turn(queue, self.spaces, self.claims, self.policy), strict=True):
            if isinstance(turn, Go):
                self._start(one, turn)

    def _start(self, one: Ticket, turn: Go) -> None:
        _, job = self.waiting.pop(one.id)
        if one.id in self.foretold:
            told, said = self.foretold.pop(one.id)
            self.met.append((told, self.now, said))
        placed = turn.placement
        hold = Hold(
            devices=tuple(device.uuid for device in placed.devices),
            bytes=placed.bytes,
            alone=placed.alone,
            share=placed.share,
        )
        since = {"id": one.id.replace("q", "c", 1), "since": int(self.now * SECOND)}
        begun = self.now + (RESTORE if job.done else 0.0)
        self.running[one.id] = _Run(job, Claim(**vars(one) | since, hold=hold), begun)
        if job.started is None:
            job.started = self.now

    def _look_at_turns(self) -> None:
        """As each holder does for itself: see worker/turns.py."""
        lab = Holding(
            queue=self._order(),
            spaces=self.spaces,
            claims=self.claims,
            policy=self.policy,
            used=self._used(),
            standings={run.claim.id: Standing(leaves=run.leaves) for run in self.running.values()},
        )
        over = turns_over(lab, self.now + self.policy.notice)
        for run in self.running.values():
            if run.free is not None:
                continue
            if run.claim.id not in over:
                run.leaves = None
            elif run.leaves is None:
                run.leaves = self.now + self.policy.notice
            elif self.now >= run.leaves:
                run.free = self.now + SAVE
                run.job.done += max(0.0, self.now - run.begun)

    def _foretell(self) -> None:
        """Once to each, by what running jobs say of themselves: within a tenth of what they will take."""
        if not self.foretells or not self.waiting.keys() - self.foretold.keys():
            return
        queue, left = self._order(), {run.claim.id: self._left(run) for run in self.running.values()}
        ends = {id: End(self.now + 0.9 * seconds, self.now + 1.1 * seconds) for id, seconds in left.items()}
        standings = {run.claim.id: Standing(leaves=run.leaves) for run in self.running.values()}
        turns = TurnFacts(self._used(), standings) if self.way == "turns" else None
        claims = self.claims
        found = foresee(queue, self.spaces, claims, ends, self.policy, now=self.now, reader=0, turns=turns)
        for one, said in zip(queue, found, strict=True):
            if one.id not in self.foretold and said is not None:
                self.foretold[one.id] = self.now, said

    def _left(self, run: _Run) -> float:
        return max(0.0, run.begun + run.job.long - run.job.done - self.now)

    def _end_of(self, run: _Run) -> float:
        return run.free if run.free is not None else run.begun + run.job.long - run.job.done

    def _end_what_ends(self) -> None:
        for run in [run for run in self.running.values() if self._end_of(run) <= self.now]:
            turn_over = run.free is not None
            self._give_back(run)
            if turn_over:
                self.turns_ended += 1
                self._queue(run.job)
            else:
                run.job.done = run.job.long
                self._enter(next(user for user in self.users if user.uid == run.job.user))

    def _give_back(self, run: _Run) -> None:
        del self.running[run.claim.id.replace("c", "q", 1)]
        share, since = run.claim.hold.share, run.claim.since / SECOND
        self.past[run.job.user].append((since, self.now, share))
        user = next(user for user in self.users if user.uid == run.job.user)
        user.used += share * (self.now - since)

    def _check(self) -> None:
        """No device is given away twice."""
        for space in self.spaces:
            here = [claim.hold for claim in self.claims if claim.hold.among([space.device.uuid])]
            assert sum(hold.bytes for hold in here) <= space.usable
            assert len(here) < 2 or not any(hold.alone for hold in here)

    # What came of it --------------------------------------------------------------------------------------------------

    def fairness(self) -> float:
        """Jain's index of device-seconds per second in which a user was there: 1 where all had the same."""
        rates = [user.used / (self.seconds - user.enters) for user in self.users if user.enters < self.seconds]
        return sum(rates) ** 2 / (len(rates) * sum(rate * rate for rate in rates))

    def waits(self) -> list[float]:
        """Seconds from a job's entry to its start; of one that never started, to the end of the time."""
        first = {job.user: job for job in reversed(self.jobs)}
        return [(self.seconds if job.started is None else job.started) - job.entered for job in first.values()]

    def foretelling(self) -> dict[str, float]:
        """How many were told a range, how many of those started within it, and how far off the others were."""
        ranges = [(told, start, said) for told, start, said in self.met if said.latest is not None]
        off = sorted(_off(start, said) for _, start, said in ranges)
        wide = sorted((said.latest or 0.0) - max(told, said.earliest) for told, _, said in ranges)
        within = sum(one == 0 for one in off)
        return {
            "told": len(self.met),
            "ranges": len(ranges),
            "within": round(within / max(1, len(ranges)), 3),
            "off_p90": round(off[int(0.9 * (len(off) - 1))], 1) if off else 0.0,
            "width_median": round(statistics.median(wide), 1) if wide else 0.0,
        }

    def figures(self) -> dict[str, float]:
        waits = sorted(self.waits())
        return {
            "fairness": round(self.fairness(), 4),
            "wait_median": round(statistics.median(waits), 1),
            "wait_p90": round(waits[int(0.9 * (len(waits) - 1))], 1),
            "wait_most": round(waits[-1], 1),
            "never_started": sum(job.started is None for job in {j.user: j for j in reversed(self.jobs)}.values()),
            "least": round(min(user.used for user in self.users), 1),
            "most": round(max(user.used for user in self.users), 1),
            "turns_ended": self.turns_ended,
            "busy": round(sum(user.used for user in self.users) / (self.devices * self.seconds), 3),
        }


def _off(start: float, said: Foreseen) -> float:
    """Seconds by which a start was outside of what was foreseen."""
    assert said.latest is not None
    return max(0.0, said.earliest - start, start - said.latest)


def played(
    way: Way, *, users: int, devices: int, seconds: float, seed: int, quantum: float, foretells: bool = False
) -> SimulatedLab:
    """One lab from its beginning to its end."""
    policy = Policy(default={"quantum": quantum}, notice=30.0)
    return SimulatedLab(way, users_of(users, seed), devices, seconds, seed, policy, foretells=foretells).play()
