"""Which plan fits: pure, from what trial runs saw to a plan and refusals.

`climb` asks for trial runs and is told what each came to. It knows no rung: each offers its notches, from the least
that it can do to the most, and the climb looks for the first that is enough. A rung that is not enough stays, with all
it can do, and the next is put on top of it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any, Protocol

from ..units import format_bytes

LEAST_GAIN = 0.1
GOOD_ENOUGH = 1.1  # times as long as it is: no other plan gains a tenth on one that takes no longer
MOST_TRIALS = 6  # for one rung; the notch between two that were tried is guessed on a straight line
AS_IT_IS = "as it is"
BY_THE_COMPILER = "it is compiled by torch.compile"  # why a module must not run twice


@dataclass(frozen=True, kw_only=True)
class ModelPart:
    """A module of a model that was seen to run."""

    name: str  # for people: "model.blocks.3"
    model: str  # the looks of its model, see units.py
    path: str  # in that; empty: the model itself
    order: int  # in which it ran first
    kept: int = 0  # bytes that it keeps for backward
    hands_on: int = 0  # bytes of what it returns
    why_not: str = ""  # why it must not run twice; empty: it may
    alone: bool = False  # that is so of itself, and not of what it is in
    batch: int = 0  # samples that it was given first
    by_batch: bool = False  # what it makes of one sample depends on the others: BatchNorm

    def holds(self, other: ModelPart) -> bool:
        """Whether the other is in it, or is it."""
        inside = not self.path or other.path == self.path or other.path.startswith(f"{self.path}.")
        return other.model == self.model and inside

    def bars(self, other: ModelPart) -> bool:
        """Whether the other must not run twice because of this one."""
        return bool(self.why_not) and other.holds(self) and not (self.alone and other.path != self.path)


@dataclass(frozen=True)
class Facts:
    """What rungs choose by; sizes in bytes."""

    parts: tuple[ModelPart, ...] = ()
    peak: int = 0  # of all that the cell has on its device
    largest: int = 0  # tensor
    states: int = 0  # of what optimizers keep
    largest_state: int = 0
    idle: int = 0  # that torch's allocator would not keep idle if its memory grew in one piece
    shares: bool = False  # its tensors with other processes
    why_not_moved: str = ""  # why nothing of it may be on the host; empty: it may


@dataclass(frozen=True)
class Notch:
    """One setting of a rung."""

    part: Any  # what `around` of the rung is given; crosses a pipe as JSON
    words: str  # "recomputing 14 of 24 blocks"


class Rung(Protocol):
    """One way to need less memory; a module in rungs/."""

    NAME: str
    EXACT: bool  # whether it changes no bit on the same device
    STEEP: bool  # whether each notch takes a longer trial run than the one before: then they are tried in their order
    REPLACES: tuple[str, ...]  # rungs that it does the work of: they are taken back where it comes

    def notches(self, facts: Facts) -> Sequence[Notch]:
        """From the least that it can do to the most; none: it can do nothing."""

    def why_not(self, facts: Facts) -> str:
        """Why there is none."""


@dataclass(frozen=True)
class Plan:
    """What is put around a cell's run. Crosses pipes, and stays in start.json, as JSON."""

    parts: Mapping[str, Any] = field(default_factory=dict)  # by the rung's name; empty: as it is
    words: str = AS_IT_IS
    slower: float = 1.0  # times that a step takes, as predicted
    exact: bool = True
    moves: int = 0  # bytes a step between device and host, as predicted
    host: int = 0  # bytes of the host's memory that it takes
    seconds: float = 0.0  # a step, as predicted or measured; 0: nobody can tell

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Plan:
        return cls(**{name: record[name] for name in cls.__dataclass_fields__ if name in record})

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    def under(self, rung: Rung, notch: Notch) -> Plan:
        """With one more rung."""
        words = notch.words if not self.parts else f"{self.words} and {notch.words}"
        return Plan({**self.parts, rung.NAME: notch.part}, words, self.slower, self.exact and rung.EXACT)

    def priced(self, tried: TriedPlan) -> Plan:
        """With what its trial run told of its cost."""
        parts = {
            name: {**part, "host": tried.host} if isinstance(part, dict) and "host" in part else part
            for name, part in self.parts.items()
        }
        cost = {"slower": tried.slower, "seconds": tried.seconds, "moves": tried.moves, "host": tried.host}
        return replace(self, parts=parts, **cost)  # type: ignore[arg-type]

    @property
    def cost(self) -> str:
        """ "about 1.3x the time, the same result to the bit" """
        result = "the same result to the bit" if self.exact else "not the same bits"
        time = f"about {self.slower:.1f}x the time"
        if not self.host:
            return f"{time}, {result}"
        moves = f"{format_bytes(self.moves)} a step to the host and back"
        return f"{time}, {moves}, {format_bytes(self.host)} of the host's memory, {result}"


@dataclass(frozen=True)
class TriedPlan:
    """What a trial run under a plan came to."""

    low: int = 0  # bytes: it will hardly run with less
    need: int | None = None  # bytes to claim; None: nobody can tell
    slower: float = 1.0  # times that a step takes as it is
    seconds: float = 0.0  # that a step takes; 0: nobody can tell
    failure: str = ""  # why it will not do, whatever it needs; in words
    moves: int = 0  # bytes a step between device and host
    host: int = 0  # bytes of the host
    where: str = ""  # the operation that needs most, and its module


@dataclass(frozen=True)
class FitLimits:
    """What the largest device has."""

    usable: int  # bytes that a claim can have
    alone: int  # bytes for a job that has it to itself
    host: int | None = None  # bytes that a plan can have of the host's memory; None: nobody looked

    def has_host(self, tried: TriedPlan) -> bool:
        return self.host is None or tried.host <= self.host

    def can_begin(self, tried: TriedPlan) -> bool:
        return self.has_host(tried) and not tried.failure

    def fits(self, tried: TriedPlan) -> bool:
        return self.can_begin(tried) and tried.need is not None and tried.need <= self.usable

    def fits_alone(self, tried: TriedPlan) -> bool:
        """With nobody beside it."""
        return self.can_begin(tried) and tried.need is not None and tried.need <= max(self.usable, self.alone)

    def may_fit(self, tried: TriedPlan) -> bool:
        """With nobody beside it, and if its margin is not used up."""
        return self.can_begin(tried) and tried.low <= self.alone


@dataclass(frozen=True)
class RungVerdict:
    """What became of one rung."""

    name: str
    words: str  # the plan's
    need: int | None  # bytes; None: it was not tried
    slower: float
    exact: bool
    fits: bool
    why: str  # why it will not do; empty: it does
    moves: int = 0  # bytes a step between device and host
    host: int = 0  # bytes of the host
    seconds: float = 0.0  # that a step takes
    low: int | None = None  # bytes: of one that fits if its margin is not used up, what it will hardly do without

    @property
    def needs(self) -> str:
        """In words; of one that fits tightly from where to where."""
        least = "" if self.low is None else f"{format_bytes(self.low)} to "
        return "" if self.need is None else f"{least}{format_bytes(self.need)}"


@dataclass(frozen=True)
class Climbed:
    """A ladder that was gone down until something fitted, or to its end."""

    steps: tuple[RungVerdict, ...]
    plan: Plan | None = None  # None: nothing fits
    least: Plan | None = None  # where nothing does: what needs least, for a cell that needs less than was predicted

    @property
    def would_do(self) -> str:
        """Where nothing fits, the smallest device that would do, as a part of a sentence; empty: nobody can tell."""
        found = [(step.need, step.words) for step in self.steps if step.need is not None]
        if self.plan is not None or not found:
            return ""
        need, words = min(found)
        return f"a device that gives {format_bytes(need)} would do{'' if words == AS_IT_IS else f', by {words}'}"

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Climbed:
        plans = (Plan.from_record(plan) if plan else None for plan in (record["plan"], record.get("least")))
        return cls(tuple(RungVerdict(**step) for step in record["steps"]), *plans)


Climb = Generator[Plan, TriedPlan, Climbed]


def climb(facts: Facts, plain: TriedPlan, limits: FitLimits, rungs: Sequence[Rung]) -> Climb:
    """Yield the plans of which a trial run is wanted; return the quickest that fits, or the least where all are tight.

    One that takes hardly longer than the cell as it is ends the search. After one that takes longer, what follows is
    tried in its place, and not on top of it; but no other bits for the sake of time.
    """
    steps = [RungVerdict("", AS_IT_IS, plain.need, 1.0, True, False, _too_much(plain, limits), seconds=plain.seconds)]
    stays = [("", Plan(), plain)]
    best: Plan | None = None
    rank, least, needs = (True, inf), None, plain.need
    tight = {}  # of steps that fit if their margin is not used up, and why they do not with it
    for rung in rungs:
        if best is not None and not rung.EXACT:
            continue
        below, last = next((plan, tried) for name, plan, tried in reversed(stays) if name not in rung.REPLACES)
        notches = rung.notches(facts)
        if not notches:
            steps.append(_not_tried(rung, facts))
            continue
        found, tried = yield from _notch(below, last, rung, notches, limits)
        with_margin = limits.fits_alone(tried)
        fits = with_margin or limits.may_fit(tried)
        why = "" if fits else _too_much(tried, limits)
        cost = (tried.moves, tried.host, tried.seconds, tried.low if fits and not with_margin else None)
        steps.append(RungVerdict(rung.NAME, found.words, tried.need, tried.slower, found.exact, fits, why, *cost))
        if fits:
            its = (not with_margin, (found.seconds if with_margin else tried.need) or inf)
            if best is None or its < rank:
                best, rank = found, its
            if with_margin and (not best.seconds or best.slower <= GOOD_ENOUGH):
                break
            if with_margin:
                continue
            tight[len(steps) - 1] = _too_much(tried, limits)
        elif limits.can_begin(tried) and tried.need is not None and (needs is None or tried.need < needs):
            least, needs = found, tried.need
        if not tried.failure and _does_much(tried, last):
            stays.append((rung.NAME, found, tried))
    for at, why in tight.items() if rank < (True,) else ():
        steps[at] = replace(steps[at], fits=False, why=why)
    return Climbed(tuple(steps), best, least if best is None else None)


def furthest(facts: Facts, limits: FitLimits, rung: Rung) -> Climb:
    """The same for all that one rung can do, whether it is needed or not."""
    notches = rung.notches(facts)
    if not notches:
        return Climbed((_not_tried(rung, facts),))
    plan = Plan().under(rung, notches[-1])
    tried = yield plan
    fits = limits.fits(tried)
    cost = (tried.moves, tried.host, tried.seconds)
    why = "" if fits else _too_much(tried, limits)
    step = RungVerdict(rung.NAME, plan.words, tried.need, tried.slower, plan.exact, fits, why, *cost)
    return Climbed((step,), plan.priced(tried) if fits else None)


def _not_tried(rung: Rung, facts: Facts) -> RungVerdict:
    return RungVerdict(rung.NAME, rung.NAME, None, 1.0, rung.EXACT, False, rung.why_not(facts))


def _does_much(tried: TriedPlan, without: TriedPlan) -> bool:
    """Whether a rung that is not enough is worth its time for those that come on top of it."""
    if tried.need is None or without.need is None:
        return True
    return tried.need <= (1 - LEAST_GAIN) * without.need


def _notch(
    below: Plan, without: TriedPlan, rung: Rung, notches: Sequence[Notch], limits: FitLimits
) -> Generator[Plan, TriedPlan, tuple[Plan, TriedPlan]]:
    """The first notch that is enough, or else the last."""

    def plan(at: int, tried: TriedPlan | None = None) -> Plan:
        made = below.under(rung, notches[at])
        return made.priced(tried) if tried else made

    if rung.STEEP:
        for at in range(len(notches)):
            tried = yield plan(at)
            if limits.fits(tried) or tried.failure:
                break
        return plan(at, tried), tried
    high = len(notches) - 1
    best = yield plan(high)
    if not limits.fits(best):
        return plan(high, best), best  # if it may fit all the same, then with the most that can be done
    low, too_much = -1, without
    for _ in range(MOST_TRIALS - 1):
        if high - low <= 1:
            break
        at = _between(low, too_much, high, best, limits)
        tried = yield plan(at)
        if limits.fits(tried):
            high, best = at, tried
        else:
            low, too_much = at, tried
    return plan(high, best), best


def _between(low: int, too_much: TriedPlan, high: int, best: TriedPlan, limits: FitLimits) -> int:
    """Where on a straight line between two notches the limit lies; where that is not known, in their middle."""
    if too_much.failure or too_much.need is None or best.need is None:
        return (low + high) // 2
    width = max(1, too_much.need - best.need)
    at = high - (high - low) * (limits.usable - best.need) // width
    return min(max(at, low + 1), high - 1)


def lower(facts: Facts, plan: Plan, rungs: Sequence[Rung]) -> tuple[Plan, ...]:
    """What is left for a job that runs out of memory under `plan`: each with more of it than the one before.

    They were not tried. A rung's notch is known by its words, which say how much it does.
    """
    found: list[Plan] = []
    stays = [("", Plan())]
    last = max((at for at, rung in enumerate(rungs) if rung.NAME in plan.parts), default=-1)
    for number, rung in enumerate(rungs):
        notches = rung.notches(facts)
        if not notches or (number < last and rung.NAME not in plan.parts):
            continue
        below = next(below for name, below in reversed(stays) if name not in rung.REPLACES)
        plans = [below.under(rung, notch) for notch in notches]
        if number >= last:
            at = next((at for at, one in enumerate(plans) if one.words == plan.words), -1)
            left = len(plans) - 1 - at
            found += [plans[at + part] for part in dict.fromkeys((-(-left // 2), left)) if part > 0]
        stays.append((rung.NAME, plans[-1]))
    return tuple(found)


def _too_much(tried: TriedPlan, limits: FitLimits) -> str:
    if tried.failure:
        return tried.failure
    least = tried.need if tried.need is not None else tried.low
    if not limits.has_host(tried):
        spare = format_bytes(limits.host or 0)
        return f"takes {format_bytes(tried.host)} of the host's memory, which has {spare} to spare"
    if least <= limits.alone:
        return "nobody can tell how much it needs"
    where = f" for {tried.where}" if tried.host and tried.where else ""
    return f"needs {format_bytes(least)}{where}, and the largest device has {format_bytes(limits.alone)}"
