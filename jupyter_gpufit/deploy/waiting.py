"""The calls that wait for their turn: a bounded number, the earliest deadline first, and alike ones together; pure.

A call with a deadline is taken only if all that wait, and it too, can be answered in time, going by how long the
models' last runs and loads took. Else it is refused at once, with the time at which it could be answered. So what is
taken is kept, and the device does no work that comes too late. Calls without a deadline come after all that have one,
in the order in which they came.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import inf

from ..calls.protocol import Call
from .profile import Profile
from .residents import Residents

MOST_TOGETHER = 64  # calls: one packet tells of them all

Shape = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class WaitingCall:
    """One call and who waits for its answer."""

    call: Call
    client: int
    since: float  # seconds, of a clock that only runs
    rows: int = 1

    @property
    def deadline(self) -> float:
        """By the same clock."""
        return inf if self.call.deadline is None else self.call.deadline

    @property
    def model(self) -> int:
        return self.call.model

    @property
    def shape(self) -> Shape:
        """What of its inputs must be alike for two calls to be put together: all but the rows."""
        return tuple(one.shape[1:] for one in self.call.inputs)


@dataclass(frozen=True)
class QueueIsFull:
    """As many wait as may."""

    waiting: int


@dataclass(frozen=True)
class WouldBeLate:
    """It, or another one that was taken before."""

    seconds: float  # from now, after which it could be answered


@dataclass(frozen=True)
class Batch:
    """What runs next: calls of one model, which others leave for it, and those for which it is too late."""

    calls: list[WaitingCall]
    late: list[WaitingCall]
    seconds: float = 0.0  # that it will take
    load: bool = False  # its weights are not there yet
    leaving: tuple[int, ...] = ()


@dataclass
class WaitingCalls:
    """The queue of one device."""

    most: int  # calls
    profiles: Sequence[Profile] = field(default_factory=lambda: [Profile()])
    residents: Residents = field(default_factory=Residents)
    _calls: list[WaitingCall] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[WaitingCall]:
        return iter(self._calls)

    @property
    def rows(self) -> int:
        return sum(call.rows for call in self._calls)

    def begin(self, profiles: Sequence[Profile], residents: Residents) -> None:
        """Go on with another instance: how fast it is, and which weights are there."""
        self.profiles, self.residents = profiles, residents

    def not_run(self, batch: Batch) -> None:
        """It was refused by the instance: no weights have moved."""
        if batch.load:
            self.residents.undo(batch.calls[0].model, batch.leaving)

    def add(self, call: WaitingCall, now: float, free: float) -> QueueIsFull | WouldBeLate | None:
        """Take it, or say why not; `free` is when the device will have done what it does."""
        if len(self._calls) >= self.most:
            return QueueIsFull(len(self._calls))
        begin = max(now, free)
        before, end = self._late(self._calls, begin, self.residents)
        insort(self._calls, call, key=lambda one: one.deadline)  # after those of the same deadline
        if self._late(self._calls, begin, self.residents)[0] <= before:
            return None
        self._calls.remove(call)
        return WouldBeLate(end + self._cost(call.model, call.rows, self.residents) - now)  # as the last one

    def _late(
        self, calls: Sequence[WaitingCall], at: float, there: Residents
    ) -> tuple[AbstractSet[WaitingCall], float]:
        """Which of them would be late, each run alone, and when the last one will have been answered."""
        if not calls or calls[0].deadline == inf:
            return frozenset(), at  # then none has a deadline
        late, there = set(), there.copy()
        for call in calls:
            done = at + self._cost(call.model, call.rows, there)
            if done > call.deadline:
                late.add(call)  # and will not be run
                continue
            there.use(call.model)
            at = done
        return late, at

    def _cost(self, model: int, rows: int, there: Residents) -> float:
        profile = self.profiles[model]
        return profile.run(rows) + (0.0 if model in there else profile.load)

    def next(self, now: float, rows: int, together: Sequence[bool]) -> Batch:
        """The first one, and, if its model's may go `together`, those like it that fit beside it into so many rows.

        They go before others, and do so as far as all others will be in time nevertheless.
        """
        late = []
        while self._calls and now + self._cost(self._calls[0].model, self._calls[0].rows, self.residents) > (
            self._calls[0].deadline
        ):
            late.append(self._calls.pop(0))
        if not self._calls:
            return Batch([], late)
        first = self._calls[0]
        batch = [first, *(self._beside(first, now, rows) if together[first.model] else [])]
        while len(batch) > 1 and first.deadline < inf and not self._in_time(batch, now):
            del batch[-(len(batch) // 2) :]
        seconds = self._cost(first.model, sum(one.rows for one in batch), self.residents)
        load = first.model not in self.residents
        taken = set(map(id, batch))
        self._calls = [call for call in self._calls if id(call) not in taken]
        leaving = self.residents.use(first.model, [call.model for call in self._calls])
        return Batch(batch, late, seconds, load, tuple(leaving))

    def _beside(self, first: WaitingCall, now: float, rows: int) -> list[WaitingCall]:
        beside: list[WaitingCall] = []
        left = rows - first.rows
        for call in self._calls[1:]:
            if call.model == first.model and call.rows <= left and call.shape == first.shape:
                beside.append(call)
                left -= call.rows
                if len(beside) + 1 == MOST_TOGETHER:
                    break
        return beside

    def _in_time(self, batch: Sequence[WaitingCall], now: float) -> bool:
        """Whether no call is late that would not be if the first one ran alone."""
        return self._late_behind(batch, now) <= self._late_behind(batch[:1], now)

    def _late_behind(self, batch: Sequence[WaitingCall], now: float) -> AbstractSet[WaitingCall]:
        there, first = self.residents.copy(), batch[0]
        done = now + self._cost(first.model, sum(one.rows for one in batch), there)
        there.use(first.model)
        taken = set(map(id, batch))
        late, _ = self._late([call for call in self._calls if id(call) not in taken], done, there)
        return late | {one for one in batch if done > one.deadline}

    def forget(self, unwanted: Callable[[WaitingCall], bool]) -> None:
        """Drop those whose caller is gone."""
        self._calls = [call for call in self._calls if not unwanted(call)]

    def clear(self) -> list[WaitingCall]:
        """All of them, which then do not wait any more."""
        calls, self._calls = self._calls, []
        return calls
