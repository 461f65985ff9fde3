"""The calls that wait for their turn: a bounded number, the earliest deadline first, and alike ones together; pure.

A call with a deadline is taken only if all that wait, and it too, can be answered in time, going by how long the
models' last runs and loads took, and by which calls will run together. Else it is refused at once, with the time at
which it could be answered. So what is taken is kept, and the device does no work that comes too late. Calls without a
deadline come after all that have one, in the order in which they came.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

from .profile import Finish, Profile, Span
from .reserve import Reserve
from .residents import Residents
from .schedule import LastPlace, Schedule, Shape, WaitingCall

PROBED = 10  # calls refused in a row, after which an idle device is tried


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


class WaitingCalls:
    """The queue of one device."""

    def __init__(
        self,
        most: int,
        at_once: int = 1,
        profiles: Sequence[Profile] | None = None,
        residents: Residents | None = None,
        together: Sequence[bool] = (False,),
    ) -> None:
        """As many calls as may wait, rows at once, and of each model whether its calls may go together."""
        self.most = most
        self.reserve = Reserve()
        self.residents = residents or Residents()
        self._calls: list[WaitingCall] = []  # by their deadlines
        self.profiles = profiles or [Profile()]
        self._at_once = at_once
        self._schedule = Schedule(at_once, self.profiles, self.residents, together)
        self._late: list[WaitingCall] = []  # who waits in vain, and has not been told
        self._refused = 0  # in a row
        # Calls like these cannot be answered before: what is refused a thousand times a second must cost little.
        self._hopeless: dict[tuple[int, Shape, int], float] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def __iter__(self) -> Iterator[WaitingCall]:
        return iter(self._calls)

    @property
    def rows(self) -> int:
        return sum(call.rows for call in self._calls)

    def begin(self, profiles: Sequence[Profile], residents: Residents, together: Sequence[bool]) -> None:
        """Go on with another instance: how fast it is, which weights are there, which calls may go together."""
        self.profiles, self.residents = profiles, residents
        self._schedule = Schedule(self._at_once, profiles, residents, together)
        self._lay_out()

    def not_run(self, batch: Batch) -> None:
        """It was refused by the instance: its weights have not come."""
        if batch.load:
            self.residents.gone(batch.calls[0].model)
            self._schedule.reckon()

    def ahead(self, running: int) -> tuple[int, list[int]] | None:
        """The model whose weights are to be loaded while that one runs, and which others leave for it."""
        if self.residents.all_there:
            return None
        wanted = list(dict.fromkeys(batch.model for batch in self._schedule.batches))
        for model in wanted:
            if model not in self.residents:  # the first one: what others took from it, it would have to take back
                leaving = self.residents.use_soon(model, running, wanted)
                if leaving is not None:
                    self._schedule.reckon()
                return None if leaving is None else (model, leaving)
        return None

    def answered(self, calls: Sequence[WaitingCall], now: float) -> None:
        """They were, together, or could not be: how far was what they were promised off?"""
        off = [now - one.promised for one in calls if one.promised < inf and not one.probe]
        if off:
            self.reserve.off.saw(max(off))

    def add(self, call: WaitingCall, now: float, free: Span) -> QueueIsFull | WouldBeLate | None:
        """Take it, or say why not; `free` is when the device will have done what it does."""
        if len(self._calls) >= self.most:
            return QueueIsFull(len(self._calls))
        if call.deadline == inf:
            self._take(call, self._schedule.last(call, Finish(now)))
            return None
        alike = (call.model, call.shape, call.rows)
        call.wished = call.deadline - self.reserve.of(call.deadline - call.since)
        last = not self._calls or self._calls[-1].deadline <= call.deadline
        if last and self._calls and call.wished < self._hopeless.get(alike, -inf):
            self._refused += 1
            return WouldBeLate(self._hopeless[alike] - now)
        begin = _begin(now, free)
        self._drop_late(Finish(now))  # what is only feared to be late is not given up
        place = self._schedule.last(call, begin)
        if not last:
            return self._add_between(call, begin, now, place.end)
        call.probe = not self._calls and place.end > call.wished and free.usual <= now and self._probes(call, begin)
        if call.probe or (place.end <= call.wished and not place.spoils):
            self._take(call, place)
            return None
        self._refused += 1
        if not place.spoils:
            self._hopeless[alike] = place.end
        return WouldBeLate(place.end - now)

    def _take(self, call: WaitingCall, place: LastPlace) -> None:
        call.promised = place.end if call.deadline < inf else inf
        self._calls.append(call)
        self._schedule.append(call, place.beside)
        self._refused = 0
        self._hopeless.clear()

    def _add_between(self, call: WaitingCall, begin: Finish, now: float, at_the_end: float) -> WouldBeLate | None:
        """Take it before others if none of them will be late for it; they are promised anew."""
        calls = list(self._calls)
        insort(calls, call, key=lambda one: one.deadline)  # after those of the same deadline
        trial = self._schedule.of(calls)
        before = {one: batch.end(begin) for batch in self._schedule.batches for one in batch.calls}
        after = {one: batch.end(begin) for batch in trial.batches for one in batch.calls}
        late = after[call] > call.wished
        if late or any(after[one] > max(one.wished, before[one]) for one in before):
            self._refused += 1
            return WouldBeLate(max(0.0, (after[call] if late else at_the_end) - now))
        call.promised = after[call]
        for one in before:
            one.promised += max(0.0, after[one] - before[one])
        self._calls, self._schedule = calls, trial
        self._refused = 0
        self._hopeless.clear()
        return None

    def _probes(self, call: WaitingCall, begin: Finish) -> bool:
        """Whether an idle device is to try nevertheless: if it may well be in time, or now and then.

        Where nothing is taken, nothing is measured, and a model that was slow for a moment would be held for slow for
        ever.
        """
        return self._usual(call, begin) <= call.deadline or self._refused >= PROBED

    def _usual(self, call: WaitingCall, begin: Finish) -> float:
        """When it would have been answered if it were next and all went as usual."""
        profile = self.profiles[call.model]
        load = 0.0 if call.model in self.residents else profile.load.usual
        return begin.usual + load + profile.run(call.rows).usual

    def _drop_late(self, begin: Finish) -> None:
        """Those first in the queue that would be late even if all went as usual; what may still be in time is run."""
        count = 0
        for call in self._calls:
            if call.probe or self._usual(call, begin) <= call.deadline:
                break
            count += 1
        if count:
            self._late += self._calls[:count]
            del self._calls[:count]
            self._lay_out()

    def take_late(self) -> list[WaitingCall]:
        """Those who wait in vain, to be told."""
        late, self._late = self._late, []
        return late

    def next(self, now: float) -> Batch:
        """What runs next, as it was planned: the first one, and those like it that fit beside it.

        They go before others: as many of them as makes the fewest late, and rather more than fewer.
        """
        begin = Finish(now)
        self._hopeless.clear()
        self._drop_late(begin)
        late = self.take_late()
        if not self._calls:
            return Batch([], late)
        self._schedule.reckon()
        batch, span = self._schedule.first(begin)
        load = batch[0].model not in self.residents
        taken = set(batch)
        self._calls = [call for call in self._calls if call not in taken]
        wanted = [one.model for one in self._schedule.batches[1:]]
        leaving = self.residents.use(batch[0].model, wanted)
        self._schedule.take(batch, self._calls)
        return Batch(batch, late, span, load, tuple(leaving))

    def forget(self, unwanted: Callable[[WaitingCall], bool]) -> None:
        """Drop those whose caller is gone."""
        if any(map(unwanted, self._calls)):
            self._calls = [call for call in self._calls if not unwanted(call)]
            self._lay_out()

    def clear(self) -> list[WaitingCall]:
        """All of them, which then do not wait any more."""
        calls, self._calls = [*self.take_late(), *self._calls], []
        self._lay_out()
        return calls

    def _lay_out(self) -> None:
        self._hopeless.clear()
        self._schedule.lay_out(self._calls)


def _begin(now: float, free: Span) -> Finish:
    """When the next one can begin. What takes longer than was feared will take as long again, for all that is known."""
    usual = max(now, free.usual) + max(0.0, now - free.most)
    return Finish(usual, max(0.0, free.most - usual) ** 2)
