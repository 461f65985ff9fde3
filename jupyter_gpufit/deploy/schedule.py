"""What will run when, if nobody else comes: the calls that wait, as the batches that they will run in; pure.

Thousands of calls a second are looked at, most of them under overload, where each moment that the processor spends on
them is one that the device may stand idle. So a call that comes last, as nearly all do, costs the same however many
wait: it goes beside those like it, or behind all, and only what its coming changes is reckoned anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

from ..calls.protocol import LARGEST, MOST_DIMS, Call
from ..models.signature import Signature, Slot
from .profile import Finish, Profile, Span
from .residents import Residents

MOST_TOGETHER = 64  # calls: one packet tells of them all

NOTHING = Finish(0.0)

Shape = tuple[tuple[int, ...], ...]


def told_of(signature: Signature) -> int:
    """Bytes of a packet that tells of a call, or of its answers, at the most."""
    return 100 + max(map(_told, (signature.inputs, signature.outputs)))


def _told(slots: Sequence[Slot]) -> int:
    return sum(50 + 17 * (MOST_DIMS if slot.shape is None else len(slot.shape)) for slot in slots)


@dataclass(eq=False)
class WaitingCall:
    """One call and who waits for its answer."""

    call: Call
    client: int
    since: float  # seconds, of a clock that only runs
    rows: int = 1
    told: int = 0  # see told_of
    probe: bool = False  # it is run to see how long that takes, though it will hardly be in time
    wished: float = inf  # by when it is to be answered, to be so by its deadline though what is foreseen is wrong
    promised: float = inf  # when it would have been answered, as it was foreseen when it was taken

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


@dataclass(eq=False)
class PlannedBatch:
    """Calls that will run together, the earliest deadline first."""

    model: int
    calls: list[WaitingCall]
    rows: int
    wished: float  # the earliest that one of its calls has
    load: Span = Span()  # of its weights, as far as nothing runs meanwhile
    usual: float = 0.0  # seconds from the beginning of all until it will have been run
    feared: float = 0.0  # square seconds, for all until then

    def end(self, begin: Finish, more: Finish = NOTHING) -> float:
        """When it will have been run at the latest; `more` comes before it."""
        return begin.usual + self.usual + more.usual + sqrt(max(0.0, begin.feared + self.feared + more.feared))


@dataclass(frozen=True)
class LastPlace:
    """What would become of a call that came last."""

    end: float  # when it would have been answered at the latest
    beside: PlannedBatch | None  # whom it would run with; None: it begins a batch
    spoils: bool = False  # others would be late for it


class Schedule:
    """Of one device."""

    def __init__(
        self, at_once: int, profiles: Sequence[Profile], residents: Residents, together: Sequence[bool]
    ) -> None:
        self.batches: list[PlannedBatch] = []
        self._profiles = profiles
        self._residents = residents
        self._together = together
        self._at_once = at_once  # rows
        self._open: dict[tuple[int, Shape], list[PlannedBatch]] = {}  # those with room for more calls like theirs
        self._there = residents.copy()  # whose weights will be there at the end of all

    def lay_out(self, calls: Sequence[WaitingCall]) -> None:
        """These, the earliest deadline first: each beside the first like it that has room."""
        self.batches, self._open = [], {}
        for call in calls:
            self._put(call, next(self._with_room(call), None))
        self.reckon()

    def of(self, calls: Sequence[WaitingCall]) -> Schedule:
        """Another one, of other calls."""
        found = Schedule(self._at_once, self._profiles, self._residents, self._together)
        found.lay_out(calls)
        return found

    def reckon(self) -> None:
        """As long as things take by now."""
        self._there = self._residents.copy()
        usual = feared = 0.0
        before: PlannedBatch | None = None
        for batch in self.batches:
            batch.load = self._load(batch.model, before)
            usual, feared = _after(usual, feared, batch.load)
            usual, feared = _after(usual, feared, self._profiles[batch.model].run(batch.rows))
            batch.usual, batch.feared, before = usual, feared, batch

    def _load(self, model: int, before: PlannedBatch | None) -> Span:
        """What its load will take, if it has to be, longer than the run meanwhile; and have it there."""
        load, meanwhile = Span() if model in self._there else self._profiles[model].load, 0.0
        if load.usual and before is not None and self._there.room_beside(model, before.model):
            meanwhile = min(load.usual, self._profiles[before.model].run(before.rows).usual)
        self._there.use(model)
        return Span(load.usual - meanwhile, load.most - meanwhile)

    def last(self, call: WaitingCall, begin: Finish) -> LastPlace:
        """Where it would be if it came last: beside the first like it that makes nobody late by that, or behind all."""
        spoilt: PlannedBatch | None = None
        for batch in self._with_room(call):
            more = self._longer(batch, call.rows)
            grows = more.usual > 0 or more.feared > 0
            if not grows or all(one.end(begin, more) <= one.wished for one in self._from(batch)):
                return LastPlace(batch.end(begin, more), batch)
            spoilt = batch
        # Many small batches would take the device longer than few large ones: none is opened while others wait.
        return LastPlace(self._behind(call, begin), None, spoils=spoilt is not None and spoilt is not self.batches[0])

    def append(self, call: WaitingCall, beside: PlannedBatch | None) -> None:
        """It has come last."""
        if beside is None:
            usual, feared = (self.batches[-1].usual, self.batches[-1].feared) if self.batches else (0.0, 0.0)
            load = self._load(call.model, self.batches[-1] if self.batches else None)
            usual, feared = _after(usual, feared, load)
            usual, feared = _after(usual, feared, self._profiles[call.model].run(call.rows))
            batch = self._put(call, None)
            batch.load, batch.usual, batch.feared = load, usual, feared
            return
        more = self._longer(beside, call.rows)
        if more.usual or more.feared:
            for one in self._from(beside):
                one.usual, one.feared = one.usual + more.usual, max(0.0, one.feared + more.feared)
                for other in one.calls:  # that they wait for this one was not foreseen, and is allowed
                    other.promised += max(0.0, more.usual)
        self._put(call, beside)

    def _behind(self, call: WaitingCall, begin: Finish) -> float:
        last = self.batches[-1] if self.batches else None
        usual, feared = (last.usual, last.feared) if last is not None else (0.0, 0.0)
        if call.model not in self._there:
            usual, feared = _after(usual, feared, self._profiles[call.model].load)
        usual, feared = _after(usual, feared, self._profiles[call.model].run(call.rows))
        return begin.usual + usual + sqrt(begin.feared + feared)

    def _longer(self, batch: PlannedBatch, rows: int) -> Finish:
        """What so many rows more add to a batch."""
        profile = self._profiles[batch.model]
        now, then = profile.run(batch.rows), profile.run(batch.rows + rows)
        return Finish(then.usual - now.usual, (then.most - then.usual) ** 2 - (now.most - now.usual) ** 2)

    def _from(self, batch: PlannedBatch) -> list[PlannedBatch]:
        return self.batches[self.batches.index(batch) :]

    def _with_room(self, call: WaitingCall) -> Iterator[PlannedBatch]:
        for batch in self._open.get((call.model, call.shape), ()):
            if batch.rows + call.rows <= self._at_once and (len(batch.calls) + 1) * call.told <= LARGEST:
                yield batch

    def _put(self, call: WaitingCall, batch: PlannedBatch | None) -> PlannedBatch:
        key = (call.model, call.shape)
        if batch is None:
            batch = PlannedBatch(call.model, [call], call.rows, call.wished)
            self.batches.append(batch)
            if self._together[call.model] and call.rows < self._at_once:
                self._open.setdefault(key, []).append(batch)
            return batch
        batch.calls.append(call)
        batch.rows += call.rows
        batch.wished = min(batch.wished, call.wished)
        if batch.rows >= self._at_once or len(batch.calls) == MOST_TOGETHER:
            self._open[key].remove(batch)
        return batch

    def first(self, begin: Finish) -> tuple[list[WaitingCall], Span]:
        """What runs next, and for how long; as many together as makes the fewest late, and rather more than fewer."""
        batch = self.batches[0]
        size = count = len(batch.calls)
        if batch.wished < inf and self._late(begin, count):
            sizes = [count >> by for by in range(count.bit_length())]  # all, half of them, ... one
            size = min(sizes, key=lambda size: self._late(begin, size))
        calls = batch.calls[:size]
        run = self._profiles[batch.model].run(sum(one.rows for one in calls))
        end = Finish(0.0).after(batch.load).after(run)
        return calls, Span(end.usual, end.most)

    def take(self, calls: Sequence[WaitingCall], others: Sequence[WaitingCall]) -> None:
        """These run now, of the first batch; the others wait."""
        first = self.batches[0]
        if len(calls) < len(first.calls):
            return self.lay_out(others)
        del self.batches[0]  # which changes nothing of how the others go together
        if first in (same := self._open.get((first.model, calls[0].shape), [])):
            same.remove(first)
        self.reckon()

    def _late(self, begin: Finish, size: int) -> int:
        """How many calls will be late, if only so many of the first batch's go first, and the rest of them in turn."""
        first, *others = self.batches
        run = self._profiles[first.model].run
        sooner, rest = first.calls[:size], first.calls[size:]
        whole, part = run(first.rows), run(sum(one.rows for one in sooner))
        less = _difference(part, whole)
        late = _late(sooner, first.end(begin, less))
        waits = bool(rest)
        for batch in others:
            if waits and rest[0].deadline < batch.calls[0].deadline:
                less, waits = self._rest(rest, less), False
                late += _late(rest, first.end(begin, less))  # about
            if batch.end(begin, less) > batch.wished:
                late += _late(batch.calls, batch.end(begin, less))
        if waits:
            last = self.batches[-1]
            late += _late(rest, last.end(begin, self._rest(rest, less)))
        return late

    def _rest(self, rest: Sequence[WaitingCall], less: Finish) -> Finish:
        span = self._profiles[rest[0].model].run(sum(one.rows for one in rest))
        return Finish(less.usual + span.usual, less.feared + (span.most - span.usual) ** 2)


def _after(usual: float, feared: float, span: Span) -> tuple[float, float]:
    """As Finish.after, which would be made a hundred times for one call."""
    return usual + span.usual, feared + (span.most - span.usual) ** 2


def _difference(one: Span, other: Span) -> Finish:
    return Finish(one.usual - other.usual, (one.most - one.usual) ** 2 - (other.most - other.usual) ** 2)


def _late(calls: Sequence[WaitingCall], end: float) -> int:
    return sum(end > one.wished and not one.probe for one in calls)
