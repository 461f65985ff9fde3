"""The calls that wait for their turn: a bounded number, the earliest deadline first, and alike ones together; pure.

A call with a deadline is taken only if all that wait, and it too, can be answered in time, going by how long the
models' last runs and loads took, and by which calls will run together. Else it is refused at once, with the time at
which it could be answered. So what is taken is kept, and the device does no work that comes too late. Calls without a
deadline come after all that have one, in the order in which they came.
"""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from math import inf

from ..calls.protocol import Call
from .profile import Finish, Profile, Span
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

    @cached_property
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
    span: Span = Span()
    load: bool = False  # its weights are not there yet
    leaving: tuple[int, ...] = ()


@dataclass
class WaitingCalls:
    """The queue of one device."""

    most: int  # calls
    at_once: int = 1  # rows
    profiles: Sequence[Profile] = field(default_factory=lambda: [Profile()])
    residents: Residents = field(default_factory=Residents)
    together: Sequence[bool] = (False,)  # of each model: whether its calls may be
    _calls: list[WaitingCall] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[WaitingCall]:
        return iter(self._calls)

    @property
    def rows(self) -> int:
        return sum(call.rows for call in self._calls)

    def begin(self, profiles: Sequence[Profile], residents: Residents, together: Sequence[bool]) -> None:
        """Go on with another instance: how fast it is, which weights are there, which calls may go together."""
        self.profiles, self.residents, self.together = profiles, residents, together

    def not_run(self, batch: Batch) -> None:
        """It was refused by the instance: no weights have moved."""
        if batch.load:
            self.residents.undo(batch.calls[0].model, batch.leaving)

    def add(self, call: WaitingCall, now: float, free: Span) -> QueueIsFull | WouldBeLate | None:
        """Take it, or say why not; `free` is when the device will have done what it does."""
        if len(self._calls) >= self.most:
            return QueueIsFull(len(self._calls))
        usual = max(now, free.usual)
        begin = Finish(usual, max(0.0, free.most - usual) ** 2)
        others = list(self._calls)
        insort(self._calls, call, key=lambda one: one.deadline)  # after those of the same deadline
        late, _ = self._late(self._calls, begin, self.residents)
        if not late:
            return None
        before, end = self._late(others, begin, self.residents)
        if late <= before:
            return None
        self._calls = others
        return WouldBeLate(self._after(end, call.model, call.rows, self.residents).most - now)  # as the last one

    def _late(
        self, calls: Sequence[WaitingCall], at: Finish, there: Residents
    ) -> tuple[AbstractSet[WaitingCall], Finish]:
        """Which of them would be late, and when the last one will have been answered.

        As many together as may, or each alone where that makes fewer late: `next` does what makes nobody late.
        """
        if not calls or calls[0].deadline == inf:
            return frozenset(), at  # then none has a deadline
        together = self._run_through(calls, at, there, self.at_once)
        if not together[0] or not any(self.together):
            return together
        return min(together, self._run_through(calls, at, there, 0), key=lambda found: len(found[0]))

    def _run_through(
        self, calls: Sequence[WaitingCall], at: Finish, there: Residents, at_once: int
    ) -> tuple[AbstractSet[WaitingCall], Finish]:
        late: set[WaitingCall] = set()
        done: set[WaitingCall] = set()
        alike: dict[tuple[int, Shape], deque[WaitingCall]] = {}
        for call in calls:
            alike.setdefault((call.model, call.shape), deque()).append(call)
        there = there.copy()
        for call in calls:
            if call in done:
                continue
            batch = self._first_of(alike[call.model, call.shape], done, at_once)
            end = self._after(at, call.model, sum(one.rows for one in batch), there)
            if end.most > call.deadline:
                batch, end = [call], self._after(at, call.model, call.rows, there)
            if end.most > call.deadline:
                late.add(call)  # and will not be run
                done.add(call)
                continue
            late.update(one for one in batch if end.most > one.deadline)
            done.update(batch)
            there.use(call.model)
            at = end
        return late, at

    def _first_of(self, alike: deque[WaitingCall], done: AbstractSet[WaitingCall], at_once: int) -> list[WaitingCall]:
        """Those that go together next, of calls that are alike; what is done is dropped from them."""
        while alike and alike[0] in done:
            alike.popleft()
        first = alike[0]
        batch, left = [first], at_once - first.rows
        if self.together[first.model]:
            for call in islice(alike, 1, None):
                if left <= 0 or len(batch) == MOST_TOGETHER:
                    break
                if call not in done and call.rows <= left:
                    batch.append(call)
                    left -= call.rows
        return batch

    def _after(self, at: Finish, model: int, rows: int, there: Residents) -> Finish:
        profile = self.profiles[model]
        return (at if model in there else at.after(profile.load)).after(profile.run(rows))

    def next(self, now: float) -> Batch:
        """The first one, and, if its model's may go together, those like it that fit beside it.

        They go before others, and do so as far as all others will be in time nevertheless.
        """
        late, begin = [], Finish(now)
        # Even if all goes as usual: who may still be in time is run.
        while self._calls and self._after(begin, self._calls[0].model, self._calls[0].rows, self.residents).usual > (
            self._calls[0].deadline
        ):
            late.append(self._calls.pop(0))
        if not self._calls:
            return Batch([], late)
        first = self._calls[0]
        batch = self._first_of(deque(one for one in self._calls if _are_alike(one, first)), set(), self.at_once)
        while len(batch) > 1 and first.deadline < inf and not self._in_time(batch, begin):
            del batch[-(len(batch) // 2) :]
        end = self._after(Finish(0.0), first.model, sum(one.rows for one in batch), self.residents)
        load = first.model not in self.residents
        taken = set(batch)
        self._calls = [call for call in self._calls if call not in taken]
        leaving = self.residents.use(first.model, [call.model for call in self._calls])
        return Batch(batch, late, Span(end.usual, end.most), load, tuple(leaving))

    def _in_time(self, batch: Sequence[WaitingCall], begin: Finish) -> bool:
        """Whether no call is late that would not be if the first one ran alone."""
        return self._late_behind(batch, begin) <= self._late_behind(batch[:1], begin)

    def _late_behind(self, batch: Sequence[WaitingCall], begin: Finish) -> AbstractSet[WaitingCall]:
        there, first, taken = self.residents.copy(), batch[0], set(batch)
        end = self._after(begin, first.model, sum(one.rows for one in batch), there)
        there.use(first.model)
        late, _ = self._late([call for call in self._calls if call not in taken], end, there)
        return late | {one for one in batch if end.most > one.deadline}

    def forget(self, unwanted: Callable[[WaitingCall], bool]) -> None:
        """Drop those whose caller is gone."""
        self._calls = [call for call in self._calls if not unwanted(call)]

    def clear(self) -> list[WaitingCall]:
        """All of them, which then do not wait any more."""
        calls, self._calls = self._calls, []
        return calls


def _are_alike(one: WaitingCall, other: WaitingCall) -> bool:
    return one.model == other.model and one.shape == other.shape
