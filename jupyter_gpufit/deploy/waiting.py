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
from math import inf

from ..calls.protocol import Call
from .profile import Finish, Profile, Span
from .residents import Residents

STEP = 0.01  # of a call's time, which is kept in reserve from then on when one was late
LATE = 0.005  # of the calls that are taken, about which may be late
MOST_RESERVE = 0.8  # of a call's time
PROBED = 10  # calls refused in a row, after which an idle device is tried
MOST_TOGETHER = 64  # calls: one packet tells of them all

Shape = tuple[tuple[int, ...], ...]


@dataclass(eq=False)
class WaitingCall:
    """One call and who waits for its answer."""

    call: Call
    client: int
    since: float  # seconds, of a clock that only runs
    rows: int = 1
    probe: bool = False  # it is run to see how long that takes, though it will hardly be in time

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
    reserve: float = (
        0.0  # part of a call's time: what is foreseen is wrong sometimes, and how far, those who were late show
    )
    _refused: int = 0  # in a row
    # Calls like these cannot be answered before: what is refused a thousand times a second must cost next to nothing.
    _hopeless: dict[tuple[int, Shape, int], float] = field(default_factory=dict)

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
        self._hopeless.clear()

    def not_run(self, batch: Batch) -> None:
        """It was refused by the instance: no weights have moved."""
        if batch.load:
            self.residents.undo(batch.calls[0].model, batch.leaving)

    def answered(self, call: WaitingCall, now: float) -> None:
        """It was, or it was given up. The reserve goes up with each that is late, and down until a few are."""
        if call.deadline < inf and not call.probe:
            change = STEP if now > call.deadline else -STEP * LATE
            self.reserve = min(MOST_RESERVE, max(0.0, self.reserve + change))

    def _wished(self, call: WaitingCall) -> float:
        """When it is to be answered, to be so by its deadline."""
        return call.deadline - self.reserve * (call.deadline - call.since) if call.deadline < inf else inf

    def add(self, call: WaitingCall, now: float, free: Span) -> QueueIsFull | WouldBeLate | None:
        """Take it, or say why not; `free` is when the device will have done what it does."""
        if len(self._calls) >= self.most:
            return QueueIsFull(len(self._calls))
        alike = (call.model, call.shape, call.rows)
        hopeless = self._hopeless.get(alike, -inf)
        if self._calls and self._calls[-1].deadline <= call.deadline and self._wished(call) < hopeless:
            self._refused += 1
            return WouldBeLate(hopeless - now)
        usual = max(now, free.usual)
        begin = Finish(usual, max(0.0, free.most - usual) ** 2)
        others = list(self._calls)
        insort(self._calls, call, key=lambda one: one.deadline)  # after those of the same deadline
        late, _ = self._late(self._calls, begin, self.residents)
        call.probe = bool(late) and not others and free.usual <= now and self._probes(call, begin)
        if not late or call.probe:
            self._refused = 0
            self._hopeless.clear()
            return None
        before, end = self._late(others, begin, self.residents)
        if late <= before:
            return None
        self._calls = others
        self._refused += 1
        last = self._after(end, call.model, call.rows, self.residents).most
        if late - before == {call}:
            self._hopeless[alike] = last
        return WouldBeLate(last - now)

    def _probes(self, call: WaitingCall, begin: Finish) -> bool:
        """Whether an idle device is to try nevertheless: if it may well be in time, or now and then.

        Where nothing is taken, nothing is measured, and a model that was slow for a moment would be held for slow for
        ever.
        """
        usual = self._after(begin, call.model, call.rows, self.residents).usual
        return usual <= call.deadline or self._refused >= PROBED

    def _late(
        self, calls: Sequence[WaitingCall], at: Finish, there: Residents
    ) -> tuple[AbstractSet[WaitingCall], Finish]:
        """Which of them would be late, and when the last one will have been answered: as many together as may."""
        if not calls or calls[0].deadline == inf:
            return frozenset(), at  # then none has a deadline
        late: set[WaitingCall] = set()
        there = there.copy()
        batches = deque(self._batches(calls))
        while batches:
            batch = batches.popleft()
            first = batch[0]
            end = self._after(at, first.model, sum(one.rows for one in batch), there)
            if end.most > self._wished(first):
                if batch[1:]:
                    batches.appendleft(batch[1:])
                batch, end = batch[:1], self._after(at, first.model, first.rows, there)
            if end.most > self._wished(first) and not first.probe:
                late.add(first)  # and will not be run
                continue
            if end.most > self._wished(batch[-1]):
                late.update(one for one in batch if end.most > self._wished(one))
            there.use(first.model)
            at = end
        return late, at

    def _batches(self, calls: Sequence[WaitingCall]) -> list[list[WaitingCall]]:
        """As they will run if nobody else comes: each beside the first like it that has room."""
        batches: list[list[WaitingCall]] = []
        last: dict[tuple[int, Shape], tuple[list[WaitingCall], int]] = {}  # of those alike, and the rows that are left
        for call in calls:
            key = (call.model, call.shape)
            batch, left = last.get(key, ([], 0))
            if call.rows > left or len(batch) == MOST_TOGETHER:
                batch, left = [], self.at_once if self.together[call.model] else call.rows
                batches.append(batch)
            batch.append(call)
            last[key] = batch, left - call.rows
        return batches

    def _after(self, at: Finish, model: int, rows: int, there: Residents) -> Finish:
        profile = self.profiles[model]
        return (at if model in there else at.after(profile.load)).after(profile.run(rows))

    def next(self, now: float) -> Batch:
        """The first one, and, if its model's may go together, those like it that fit beside it.

        They go before others: as many of them as makes the fewest late, and rather more than fewer.
        """
        late, begin = [], Finish(now)
        self._hopeless.clear()
        while self._calls and self._is_late(self._calls[0], begin):
            late.append(self._calls.pop(0))
        if not self._calls:
            return Batch([], late)
        first = self._calls[0]
        batch = self._beside(first)
        if first.deadline < inf:
            sizes = [len(batch) >> by for by in range(len(batch).bit_length())]  # all, half of them, ... one
            del batch[min(sizes, key=lambda size: len(self._late_behind(batch[:size], begin))) :]
        end = self._after(Finish(0.0), first.model, sum(one.rows for one in batch), self.residents)
        load = first.model not in self.residents
        taken = set(batch)
        self._calls = [call for call in self._calls if call not in taken]
        leaving = self.residents.use(first.model, [call.model for call in self._calls])
        return Batch(batch, late, Span(end.usual, end.most), load, tuple(leaving))

    def _beside(self, first: WaitingCall) -> list[WaitingCall]:
        batch, left = [first], self.at_once - first.rows
        for call in self._calls[1:] if self.together[first.model] else ():
            if left <= 0 or len(batch) == MOST_TOGETHER:
                break
            if call.rows <= left and call.model == first.model and call.shape == first.shape:
                batch.append(call)
                left -= call.rows
        return batch

    def _is_late(self, call: WaitingCall, begin: Finish) -> bool:
        """Even if all goes as usual: what may still be in time is run."""
        return not call.probe and self._after(begin, call.model, call.rows, self.residents).usual > call.deadline

    def _late_behind(self, batch: Sequence[WaitingCall], begin: Finish) -> AbstractSet[WaitingCall]:
        there, first, taken = self.residents.copy(), batch[0], set(batch)
        end = self._after(begin, first.model, sum(one.rows for one in batch), there)
        there.use(first.model)
        late, _ = self._late([call for call in self._calls if call not in taken], end, there)
        return late | {one for one in batch if end.most > self._wished(one)}

    def forget(self, unwanted: Callable[[WaitingCall], bool]) -> None:
        """Drop those whose caller is gone."""
        self._calls = [call for call in self._calls if not unwanted(call)]
        self._hopeless.clear()

    def clear(self) -> list[WaitingCall]:
        """All of them, which then do not wait any more."""
        calls, self._calls = self._calls, []
        return calls
