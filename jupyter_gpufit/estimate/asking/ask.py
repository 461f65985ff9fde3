"""What is asked of the process that estimates, and what it answers: one line of JSON each; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...devices.card import Card
from ...devices.cards import Context
from ...devices.device import Kind as DeviceKind
from ...devices.speeds import TYPICAL, DeviceSpeed
from ...fit.plan import Climbed, FitLimits, Plan
from ...fit.sharing import Sharing
from ..reckoning.record import Read
from ..reckoning.report import Estimate
from ..reckoning.timeline import Timeline

FOR_A_PLAN = 5  # times an estimate's limit


@dataclass(frozen=True, kw_only=True)
class EstimatedProgram:
    """What is to be estimated: a cell with its variables, or a script. Said once."""

    source: str  # of a cell, after IPython's transformer; of a script, its text
    cwd: str
    path: list[str]  # sys.path
    script: str = ""  # where it lies; empty for a cell
    arguments: list[str] = field(default_factory=list)  # of a script; of a cell its kernel's, the first included
    graph: int = -1  # descriptor of a cell's variables less their tensor bytes
    memory: list[int] = field(default_factory=list)  # descriptors of those
    was: dict[str, int] = field(default_factory=dict)  # numbers that earlier cells gave to the names to be swept

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> EstimatedProgram:
        return cls(**json.loads(line))


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One estimate of it."""

    card: Card
    context: Context
    kind: DeviceKind = "gpu"
    steps: int = 2
    limit: float = 120.0  # seconds
    values: Mapping[str, int] = field(default_factory=dict)  # names that get another value
    limits: FitLimits | None = None  # of the largest device, where a plan is wanted if it does not fit
    fit: str = "exact"  # which plans are wanted, see fit/ladder.py: allowed
    most: bool = False  # of the one rung that is named all that it can do, whether it is needed or not
    ran_out: tuple[str, ...] = ()  # plans under which it ran out of memory there, by their words
    took: Mapping[str, int] = field(default_factory=dict)  # bytes that its last run by a plan took, by its words
    speed: DeviceSpeed = TYPICAL  # of the card
    measured: Mapping[str, float] = field(default_factory=dict)  # seconds of a step under plans, by their words
    told_too_little: float = 1.0  # measured seconds of a predicted one
    sharing: Sharing = Sharing()  # what is wanted is what each of its devices needs

    @property
    def search(self) -> float:
        """Seconds in which a plan is looked for where none is found sooner."""
        return self.limit * FOR_A_PLAN

    @property
    def patience(self) -> float:
        """Seconds that it may take: a trial run; with a ladder a longer one, too, and the last of its search."""
        return self.limit + (2 * self.search + self.limit if self.limits else 0.0)

    def seconds_of(self, plan: str, estimate: Estimate) -> float:
        """What a step under it takes: as measured before, or else as predicted by all that is known; 0: unknown."""
        return self.measured.get(plan, estimate.seconds_per_step * self.told_too_little)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> Ask:
        record = json.loads(line)
        capability = tuple(record["card"]["capability"])
        limits = record["limits"]
        return cls(
            **record
            | {
                "card": Card(**record["card"] | {"capability": capability}),
                "context": Context(**record["context"]),
                "limits": FitLimits(**limits) if limits else None,
                "ran_out": tuple(record["ran_out"]),
                "speed": DeviceSpeed(**record["speed"]),
                "sharing": Sharing(**record["sharing"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class TraceAnswer:
    """An estimate, and the memory over one step when there was a trace."""

    estimate: Estimate
    timeline: Timeline | None = None
    failure: str = ""  # the user's own traceback, when the cell failed
    key: str = ""  # of this cell with these inputs, see learned.py
    unread: tuple[str, ...] = ()  # names of the asked values that nothing reads
    batch: int = 0  # the largest that a data loader gave; 0: none gave any
    read: Read | None = None  # files; None: nobody knows what else it depended on
    climbed: Climbed | None = None  # where it does not fit as it is: the ladder
    planned: Estimate | None = None  # under the plan that was found
    planned_timeline: Timeline | None = None
    lower: tuple[Plan, ...] = ()  # what is left if it runs out all the same

    def without_drawing(self) -> TraceAnswer:
        return replace(self, timeline=None, planned_timeline=None, read=None)

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def decode(cls, line: bytes) -> TraceAnswer:
        record: dict[str, Any] = json.loads(line)
        climbed, planned = record["climbed"], record["planned"]
        return cls(
            estimate=Estimate.from_record(record["estimate"]),
            timeline=_timeline(record["timeline"]),
            failure=record["failure"],
            key=record["key"],
            unread=tuple(record["unread"]),
            batch=record["batch"],
            climbed=Climbed.from_record(climbed) if climbed else None,
            planned=Estimate.from_record(planned) if planned else None,
            planned_timeline=_timeline(record.get("planned_timeline")),
            lower=tuple(map(Plan.from_record, record["lower"])),
        )


def _timeline(drawn: dict[str, Any] | None) -> Timeline | None:
    return Timeline(**drawn | {"moments": tuple(drawn["moments"])}) if drawn else None
