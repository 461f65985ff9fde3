"""Under which plan a job runs, what is left if that is not enough, and how both are said; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ...devices.device import Device
from ...fit.plan import Climbed, FitLimits, Plan, RungVerdict
from ...lab.place import Space
from ...units import format_bytes
from ..need import Needed
from ..reckoning.verdict import usable_alone
from .ask import TraceAnswer
from .climb import RAN_OUT


@dataclass(frozen=True)
class Fit:
    """A job's: in its handover it goes from image to image, and in start.json to a resume."""

    plan: Plan = Plan()
    lower: tuple[Plan, ...] = ()  # for when it runs out all the same
    key: str = ""  # of its cell, see learned.py
    why: str = ""  # in a sentence; empty: it runs as it is, and fits
    split: int = 0  # what each of several devices has a part of, see fit/sharing.py
    devices: int = 1  # for so many, or more, holds what it was estimated to need on each
    plain: int = 0  # bytes that it was estimated to need as it is; 0: nobody can tell, or the plan is its user's wish

    @property
    def said(self) -> str:
        """The plan in words; empty: as it is."""
        host = f" ({format_bytes(self.plan.host)} of the host's memory)" if self.plan.host else ""
        return f"{self.plan.words}{host}" if self.plan.parts else ""

    def to_record(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Fit:
        lower = tuple(map(Plan.from_record, record["lower"]))
        others = {name: record[name] for name in ("split", "devices", "plain") if name in record}
        return cls(Plan.from_record(record["plan"]), lower, record["key"], record["why"], **others)

    def lowered(self) -> Fit:
        """One rung further down; to be asked where there is one."""
        plan = self.lower[0]
        return replace(self, plan=plan, lower=self.lower[1:], why="")

    def on(self, devices: Iterable[Device], needed: int | None) -> Fit | None:
        """What it is where it goes on there, each of them alone; None: it stays as it is.

        `needed`: bytes by what else is known of it. A checkpoint does not know by which plan it was made.
        """
        usable = [Space(device).usable for device in devices if not device.problem]
        if not self.plain or not usable:
            return None
        if self.plan.parts and min(usable) >= self.plain:
            return replace(self, plan=Plan(), lower=(self.plan, *self.lower), why="")
        if not self.plan.parts and self.lower and needed is not None and max(usable) < min(needed, self.plain):
            return self.lowered()
        return None

    @property
    def changed(self) -> Needed:
        """What it needs once it has become another."""
        if not self.plan.parts:
            words = (
                f"needs {format_bytes(self.plain)} as it is, which is there: it goes on without {self.lower[0].words}"
            )
            return Needed(self.plain, words)
        return Needed(None, f"needs {format_bytes(self.plain)} as it is, which is not there: it goes on by {self.said}")


def limits_of(devices: Sequence[Device]) -> FitLimits | None:
    """Of the largest among them."""
    spaces = [Space(device) for device in devices if not device.problem]
    if not spaces:
        return None
    return FitLimits(max(space.usable for space in spaces), max(map(usable_alone, spaces)))


def fit_of(answer: TraceAnswer) -> Fit:
    """What a climb came to."""
    climbed = answer.climbed
    if climbed is None:
        return Fit(lower=answer.lower, key=answer.key)
    if climbed.plan is None:
        if climbed.least is not None and climbed.steps[0].why == RAN_OUT:
            begins = f"{nothing_does(climbed)}; tries {climbed.least.words}, which needs least"
            return Fit(climbed.least, key=answer.key, why=begins)
        return Fit(lower=answer.lower, key=answer.key, why=nothing_does(climbed))
    return Fit(climbed.plan, answer.lower, answer.key, trains_by(climbed))


def trains_by(climbed: Climbed) -> str:
    """ "needs 31.0 GiB, ...: trains there by recomputing 14 of 24 blocks: 18.2 GiB, about 1.3x the time, ..." """
    assert climbed.plan is not None
    plan = climbed.plan
    last = next(step for step in reversed(climbed.steps) if step.words == plan.words)
    needs = filter(None, (last.needs, plan.cost))
    return f"{climbed.steps[0].why}: trains there by {plan.words}: {', '.join(needs)}"


def nothing_does(climbed: Climbed) -> str:
    """Why no rung is enough."""
    first, *others = climbed.steps
    return "; ".join(filter(None, [first.why, *map(_refused, others), climbed.would_do]))


def _refused(step: RungVerdict) -> str:
    return f"{step.words}: {step.why}"
