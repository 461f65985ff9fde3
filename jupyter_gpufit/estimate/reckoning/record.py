"""What a trace says: every block of device memory, born and died, in order. Plain values; crosses a pipe as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Phase = Literal["forward", "backward", "optimizer"]
Kind = Literal["parameter", "gradient", "optimizer state", "input", "activation", "temporary", "workspace", "buffer"]
Status = Literal["stopped", "completed", "failed", "died", "timeout"]


@dataclass(frozen=True)
class TracedStorage:
    """One storage on the device."""

    size: int  # bytes, as asked of the allocator
    phase: Phase  # in which it was born
    kind: Kind
    op: str  # the operator that made it
    module: str  # the dotted path of the module in whose forward (or backward) it was born; empty outside
    step: int  # optimizer steps done before


@dataclass(frozen=True)
class Change:
    """A block's birth or death."""

    block: int  # index into Trace.blocks
    alive: bool  # True: allocated; False: freed


@dataclass(frozen=True)
class Trace:
    """One run of a cell on the stand-in device."""

    status: Status  # stopped: after enough steps; completed: the cell came to its end
    error: str = ""  # the user's own traceback when failed; what is known when died or timeout
    where: str = ""  # for a timeout: the line of the cell it was in
    steps: int = 0  # optimizer steps seen
    blocks: tuple[TracedStorage, ...] = ()
    changes: tuple[Change, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)  # what was guessed, and how often
    flops_per_step: int | None = None
    samples_per_step: int | None = None
    seconds: float = 0.0  # what the trace took
    resident: int = 0  # bytes: the most that the child's memory grew
