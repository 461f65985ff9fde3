"""What a running worker says of its job once a second, beside its state; pure.

It stands in state.json, so that whoever looks at many jobs at once reads one small file of each and no journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..system.foreign import known


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a job is."""

    step: int  # optimizer steps, or iterations of its loops where there is no optimizer
    per_second: float | None = None  # null: not known yet
    total: int | None = None  # steps; null: its loops have no known length
    left: float | None = None  # seconds


@dataclass(frozen=True, kw_only=True)
class Loss:
    """The latest value of the loop's own variable that is its loss."""

    name: str  # the variable's
    value: float | None  # null: not a finite number


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a job takes of its device."""

    used: int  # bytes
    peak: int  # bytes, so far
    estimate: int | None = None  # bytes that were foreseen
    host: int = 0  # bytes of the host's memory that its plan has taken
    link: float | None = None  # bytes a second that go there and back; null: not known, or no plan


@dataclass(frozen=True, kw_only=True)
class CallFigures:
    """How a deployed model is called."""

    per_second: float
    p50: float | None = None  # seconds in which half of the last calls were answered; null: none was
    p99: float | None = None
    waiting: int = 0  # calls
    refused: int = 0  # calls, since it was started; for want of room, or of time
    late: int = 0  # calls that were taken, and could not be answered in time
    rows: float | None = None  # of a batch, in the mean of the last ones
    limit: int | None = None  # bytes of its device that it may take

    @property
    def words(self) -> str:
        """ "120 calls/s, p50 2.1 ms, p99 8.0 ms, 3 wait" """
        parts = [f"{self.per_second:.3g} calls/s"]
        if self.p50 is not None and self.p99 is not None:
            parts += [f"p50 {self.p50 * 1e3:.2g} ms", f"p99 {self.p99 * 1e3:.2g} ms"]
        parts += [f"{self.waiting} wait"] if self.waiting else []
        parts += [f"{self.refused} were refused"] if self.refused else []
        return ", ".join([*parts, *([f"{self.late} were late"] if self.late else [])])


@dataclass(frozen=True, kw_only=True)
class Live:
    """The latest of everything."""

    progress: Progress | None = None
    loss: Loss | None = None
    metrics: tuple[str, ...] = ()  # names of the variables whose values are in the journal
    mfu: float | None = None  # share of the card's arithmetic that the model's own operations use; 1 is all
    mfu_foreseen: float | None = None  # the same, as it was foreseen
    memory: Memory | None = None
    followed: bool = True  # by a kernel or a terminal; false once it is known that nobody does
    calls: CallFigures | None = None  # of a deployed model

    def carried(self) -> Live:
        """What still holds for the next process of the job, which takes no memory yet."""
        return Live(progress=self.progress, loss=self.loss, metrics=self.metrics)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Live:
        """Read what `asdict` made of it; unknown keys are ignored."""
        found = known(cls, record)
        return cls(
            progress=_read(Progress, found.get("progress")),
            loss=_read(Loss, found.get("loss")),
            metrics=tuple(found.get("metrics", ())),
            mfu=found.get("mfu"),
            mfu_foreseen=found.get("mfu_foreseen"),
            memory=_read(Memory, found.get("memory")),
            followed=found.get("followed", True),
            calls=_read(CallFigures, found.get("calls")),
        )


def finite(value: float) -> float | None:
    """The value, or None for nan and infinity, which JSON has no words for."""
    return value if math.isfinite(value) else None


def _read(cls: type[Any], record: Mapping[str, Any] | None) -> Any:
    if record is None:
        return None
    return cls(**known(cls, record))
