"""The estimate a person reads: a number with its band, its reasons, and what would make it smaller; pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from ...devices.card import Card
from ...devices.cards import Context, doubt_about
from ...units import format_bytes
from .allocator import Replay, smallest_capacity
from .margins import Confidence, margin_of
from .options import DEFAULT, AllocatorOptions
from .record import Kind, Trace
from .shrink import Shrinking, savings

LABELS: Mapping[Kind, str] = {
    "parameter": "parameters",
    "gradient": "gradients",
    "optimizer state": "optimizer state",
    "activation": "activations",
    "input": "batch",
    "temporary": "temporaries",
    "buffer": "buffers",
    "workspace": "workspaces",
}
OVERHEAD, CONTEXT = "allocator overhead", "context"
NO_GPU = "this cell uses no GPU"  # the reason why there is no estimate, where the trial run saw the whole cell
How = Literal["trace", "closed form", "nothing"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a cell will need on a card. `to_json` is what programs read; its keys only ever grow in number."""

    card: str
    card_total: int  # bytes
    how: How = "trace"
    peak_allocated: int = 0  # bytes in tensors at the most
    peak_reserved: int = 0  # bytes that torch takes from the card for them
    capacity: int = 0  # bytes with which torch still gets by
    context: int = 0  # bytes of the process on the card beside torch's
    need: int | None = None  # bytes to claim; None: nobody can tell
    low: int = 0  # bytes: it will hardly run with less
    high: int | None = None  # bytes: it will hardly take more; None: nobody can tell
    by_kind: Mapping[str, int] = field(default_factory=dict)  # bytes at the peak; they add up to reserved + context
    confidence: Confidence = "low"
    reasons: tuple[str, ...] = ()
    peak_module: str = ""
    peak_op: str = ""
    closed_form: int = 0  # bytes of parameters, gradients and optimizer state: the lower bound
    shrink: tuple[Shrinking, ...] = ()
    flops_per_step: int | None = None
    flops_again_per_step: int = 0  # of what is computed once more in backward
    moved_per_step: int = 0  # bytes between device and host, of a plan
    steps_in_all: int = 0  # of the whole cell; 0: nobody knows
    seconds_per_step: float = 0.0  # as predicted
    waited_per_step: float = 0.0  # of them, for copies of a plan
    on_host: int = 0  # bytes of the host that a plan takes
    samples_per_step: int | None = None
    steps: int = 0  # optimizer steps that were looked at
    seconds: float = 0.0  # that it took
    host: int = 0  # bytes that the trial run's own process grew by
    measured: int | None = None  # bytes that the same cell really took before
    needs_none: bool = False  # no GPU was used, and nothing is known that could use one

    @property
    def uses_no_gpu(self) -> bool:
        return self.reasons[:1] == (NO_GPU,)

    def to_json(self) -> str:
        return json.dumps({"format": 1, **asdict(self)}, indent=1)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Estimate:
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        known["reasons"] = tuple(known.get("reasons", ()))
        known["shrink"] = tuple(Shrinking(**saving) for saving in known.get("shrink", ()))
        return cls(**known)

    @property
    def slower(self) -> float:
        """How much more is computed than the model itself asks for, as a factor."""
        return 1 + self.flops_again_per_step / self.flops_per_step if self.flops_per_step else 1.0

    @property
    def expected(self) -> int:
        """The bytes that the process will probably hold at its peak."""
        return self.peak_reserved + self.context


def estimate_of(
    trace: Trace, run: Replay, card: Card, context: Context, options: AllocatorOptions = DEFAULT
) -> Estimate:
    """The estimate that follows from a trace on which something happened, and its replay with these options."""
    sizes = [block.size for block in trace.blocks]
    capacity = smallest_capacity(sizes, trace.changes, options, run)
    margin = margin_of(trace)
    peak = trace.blocks[trace.changes[run.peak].block] if run.peak >= 0 else None
    unknown = tuple(f"{name} is an allocator option that is not modelled" for name in options.unknown)
    return Estimate(
        card=card.name,
        card_total=card.total,
        peak_allocated=run.allocated,
        peak_reserved=run.reserved,
        capacity=capacity,
        context=context.bytes,
        need=round(capacity * (1 + margin.share)) + context.bytes,
        low=run.allocated + context.bytes,
        high=max(round(run.reserved * (1 + margin.share)), run.reserved) + context.at_most,
        by_kind=_by_kind(trace, run, context.bytes),
        confidence=margin.confidence,
        reasons=(*margin.reasons, *_of_context(context), *unknown, *_of_card(card)),
        peak_module=peak.module if peak else "",
        peak_op=peak.op if peak else "",
        closed_form=closed_form(trace),
        shrink=savings(trace, run, options),
        flops_per_step=trace.flops_per_step,
        flops_again_per_step=trace.flops_again_per_step,
        moved_per_step=trace.moved_per_step,
        steps_in_all=trace.steps_in_all if trace.status == "completed" else 0,
        seconds_per_step=trace.seconds_per_step,
        waited_per_step=trace.waited_per_step,
        on_host=trace.on_host,
        samples_per_step=trace.samples_per_step,
        steps=trace.steps,
        seconds=trace.seconds,
        host=trace.resident,
    )


def _of_context(context: Context) -> tuple[str, ...]:
    spread = context.at_most - context.bytes
    return (f"context: {context.source} (up to {format_bytes(spread)} more)",) if spread else ()


def _of_card(card: Card) -> tuple[str, ...]:
    doubt = doubt_about(card.name)
    return (doubt,) if doubt else ()


def _by_kind(trace: Trace, run: Replay, context: int) -> dict[str, int]:
    """Bytes alive at the peak, and what stands around them."""
    found = dict.fromkeys(LABELS.values(), 0)
    for change in trace.changes[: run.peak + 1]:
        block = trace.blocks[change.block]
        found[LABELS[block.kind]] += block.size if change.alive else -block.size
    overhead = run.reserved - sum(found.values())
    return {name: size for name, size in (found | {OVERHEAD: overhead, CONTEXT: context}).items() if size}


def closed_form(trace: Trace) -> int:
    """Parameters, gradients and optimizer state at the most of each: ZeRO's (2 + 2 + K) bytes a parameter, counted."""
    return sum(_most(trace, kind) for kind in ("parameter", "gradient", "optimizer state"))


def _most(trace: Trace, kind: str) -> int:
    now = most = 0
    for change in trace.changes:
        block = trace.blocks[change.block]
        if block.kind == kind:
            now += block.size if change.alive else -block.size
            most = max(most, now)
    return most
