"""What a trace says: every block of device memory, born and died, in order. Plain values; crosses a pipe as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

AUTOCAST = "weights under autocast"
COMPILED = "torch.compile taken as eager"  # cuda/stand_in/uncompiled.py
GROUPED = "grouped convolutions"
NO_STEP = "the cell means to train, and made no step"  # notes of a trace

Phase = Literal["forward", "backward", "optimizer"]
Kind = Literal["parameter", "gradient", "optimizer state", "input", "activation", "temporary", "workspace", "buffer"]
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(: |:?$)")  # as a line of its own at the left
_MOST_SAID = 300  # characters of an error in a sentence

Read: TypeAlias = tuple[tuple[str, int, int], ...]  # path, when it was changed in ns since 1970, bytes; of files
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
class RanModule:
    """A module that was called; see fit/seen.py."""

    name: str  # the path that its blocks are named by
    model: str  # what the model looks like that it is in
    path: str  # there
    order: int
    hands_on: int  # bytes
    why_not: str  # why it must not run twice
    batch: int = 0  # samples that it was given first
    by_batch: bool = False  # what it makes of one sample depends on the others
    alone: bool = False  # that it must not run twice is so of itself, and not of what it is in


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
    modules: tuple[RanModule, ...] = ()
    flops_per_step: int | None = None
    flops_again_per_step: int = 0  # of what is computed once more in backward
    moved_per_step: int = 0  # bytes between device and host, of a plan
    steps_in_all: int = 0  # that the whole cell would make; 0: nobody knows
    seconds_per_step: float = 0.0  # that it would take on a device of the speed that was asked for
    waited_per_step: float = 0.0  # of them, for copies of a plan
    on_host: int = 0  # bytes of the host that a plan took
    samples_per_step: int | None = None
    largest_batch: int = 0  # samples that a data loader gave at once; 0: none gave any
    seconds: float = 0.0  # what the trace took
    resident: int = 0  # bytes: the most that the child's memory grew
    doubt: str = ""  # of a cell that put nothing on the device: why it may use one all the same
    refused: tuple[str, int] | None = None  # the file and line at which it met what a trace may not do
    read: Read | None = None  # what it depended on beside its variables; None: that is not known

    @property
    def cut_short(self) -> bool:
        """Whether the cell would go on where the trace ended."""
        return self.status in ("timeout", "died", "failed")

    @property
    def trained(self) -> bool:
        """Whether the steps that were to be watched were seen, whatever came then."""
        return self.steps > 1

    @property
    def what_went_wrong(self) -> str:
        """In one line, with the cell's line where that is known."""
        where = f" ({self.where})" if self.where else ""
        return f"{_exception_in(self.error)}{where}"


def _exception_in(text: str) -> str:
    """The last exception of a traceback, all of its message; of other words the first line."""
    lines = text.strip().splitlines()
    starts = [at for at, line in enumerate(lines) if _EXCEPTION.match(line)]
    said = lines[starts[-1] :] if starts and "Traceback (most recent call last)" in text else lines[:1]
    return " ".join(part for line in said if (part := line.strip()))[:_MOST_SAID]
