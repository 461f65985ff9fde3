"""A device that is asked for more than it can do, by a clock of its own: the queue decides, a model of a device runs.

So what admission keeps, and what it gives, is measured to the same figures each time, on however busy a machine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from jupyter_gpufit.calls.protocol import Call, Lying
from jupyter_gpufit.deploy.profile import DevicePace, Profile, Span
from jupyter_gpufit.deploy.residents import Residents
from jupyter_gpufit.deploy.schedule import WaitingCall
from jupyter_gpufit.deploy.waiting import WaitingCalls

ROWS = 16
CALL = (Lying("float32", (1, 4), 0),)
STALL = 0.1  # seconds at most
Slower = Callable[[float], float]  # how much slower than usual the device is at a time


def steady(now: float) -> float:
    return 1.0


@dataclass
class Overloaded:
    """Two models, of which one takes three times as long as the other, and how the calls of both end."""

    deadline: float = 0.1  # seconds
    admits: bool = True  # else they are served in the order in which they come, all of them
    slower: Slower = steady
    seed: int = 0
    stalls: float = 0.0  # of so many a second, each of which takes up to STALL
    load: float = 0.0  # seconds; of weights, with room for one model's
    ended: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        pace = DevicePace()
        tried = [[(rows, self.usual(model, rows)) for rows in (1, ROWS)] for model in (0, 1)]
        self.queue = WaitingCalls(
            512,
            ROWS,
            [Profile(one, self.load, pace) for one in tried],
            Residents([1, 1], 1 if self.load else 2, {0: None} if self.load else {0: None, 1: None}),
            (True, True),
        )

    def usual(self, model: int, rows: int) -> float:
        return (1 + 2 * model) * (0.002 + 0.0005 * rows)

    @property
    def capacity(self) -> float:
        """Calls a second of both models alike, in full batches."""
        return 2 * ROWS / sum(self.usual(model, ROWS) for model in (0, 1))

    def took(self, model: int, rows: int, now: float) -> float:
        """As on a machine with neighbours: it varies, and one run of a hundred takes three times as long."""
        hiccup = 3.0 if self.chance.random() < 0.01 else 1.0
        took = self.usual(model, rows) * self.chance.lognormvariate(0.0, 0.1) * hiccup * self.slower(now)
        if self.stalls and self.chance.random() < self.stalls * took:
            took += self.chance.uniform(0.0, STALL)
        return took

    def run(self, times: float, seconds: float) -> Overloaded:
        """Calls at random, so many times as often as it can answer."""
        now, due, busy = 0.0, 0.0, 0.0
        running = Span()
        while due < seconds or len(self.queue):
            if due < seconds and (due <= busy or not len(self.queue)):
                now = due
                due += self.chance.expovariate(times * self.capacity)
                self._arrive(now, running if now < busy else Span(now, now))
                if busy > now:
                    continue
            now = max(now, busy)
            batch = self.queue.next(now)
            for one in batch.late:
                self.queue.answered([one], now + self.usual(one.model, one.rows))
            self.ended["late"] += len(batch.late)
            if not batch.calls:
                continue
            model, rows = batch.calls[0].model, sum(one.rows for one in batch.calls)
            took, loading = self.took(model, rows, now), self.load if batch.load else 0.0
            running, busy = Span(now + batch.span.usual, now + batch.span.most), now + took + loading
            if batch.load:
                self.queue.profiles[model].loaded(loading)
            self.queue.profiles[model].ran(rows, took)
            self.queue.answered(batch.calls, busy)
            for one in batch.calls:
                self.ended["met" if busy <= one.since + self.deadline else "late"] += 1
        return self

    def _arrive(self, now: float, free: Span) -> None:
        deadline = now + self.deadline if self.admits else None
        call = WaitingCall(Call(CALL, 0, self.chance.randrange(2), deadline), 0, now)
        self.ended["refused" if self.queue.add(call, now, free) else "taken"] += 1

    @property
    def met_of_taken(self) -> float:
        return self.ended["met"] / max(1, self.ended["taken"])

    @property
    def goodput(self) -> float:
        return self.ended["met"] / (self.ended["taken"] + self.ended["refused"])
