"""What would make a job smaller, and by about how much; pure.

Only what can be read off the trace is offered. How much slower the job gets is not said here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from ...units import MiB
from .allocator import Replay, replay
from .options import AllocatorOptions
from .record import Trace

LEAST = 0.02  # of the peak: less is not worth a change
FEWEST_LAYERS = 3  # below, recomputing one at a time keeps most of the memory


@dataclass(frozen=True)
class Shrinking:
    """One change to the cell or its environment."""

    what: str
    bytes: int  # about


def savings(trace: Trace, run: Replay, options: AllocatorOptions) -> tuple[Shrinking, ...]:
    """The largest first."""
    least = max(LEAST * run.reserved, MiB)
    found = [saving for saving in _candidates(trace, run, options) if saving.bytes >= least]
    return tuple(sorted(found, key=lambda saving: -saving.bytes))


def _candidates(trace: Trace, run: Replay, options: AllocatorOptions) -> Iterator[Shrinking]:
    alive = _alive_at_peak(trace, run)
    by_kind: Counter[str] = Counter()
    for number in alive:
        by_kind[trace.blocks[number].kind] += trace.blocks[number].size
    with_batch = by_kind["activation"] + by_kind["input"] + by_kind["temporary"]
    yield Shrinking("a batch half as large", with_batch // 2)
    yield Shrinking("recomputing activations (torch.utils.checkpoint around each layer)", _recomputed(trace, alive))
    yield Shrinking("keeping the optimizer's state on the host", by_kind["optimizer state"])
    yield Shrinking("an optimizer with 8-bit states", by_kind["optimizer state"] * 3 // 4)
    if not options.expandable_segments:
        sizes = [block.size for block in trace.blocks]
        other = replay(sizes, trace.changes, AllocatorOptions(expandable_segments=True)).reserved
        yield Shrinking("PYTORCH_ALLOC_CONF=expandable_segments:True", run.reserved - other)


def _recomputed(trace: Trace, alive: set[int]) -> int:
    """All activations kept in repeated layers, less one layer's, which is there while it is computed again."""
    layers: Counter[str] = Counter()
    for number in alive:
        block = trace.blocks[number]
        if block.kind == "activation" and (layer := _layer(block.module)):
            layers[layer] += block.size
    if len(layers) < FEWEST_LAYERS:
        return 0
    return sum(layers.values()) - max(layers.values())


def _layer(module: str) -> str:
    """The path up to the first number, as in transformer.h.3.attn: a member of a list of layers."""
    parts = module.split(".")
    numbers = [place for place, part in enumerate(parts) if part.isdigit()]
    return ".".join(parts[: numbers[0] + 1]) if numbers else ""


def _alive_at_peak(trace: Trace, run: Replay) -> set[int]:
    alive: set[int] = set()
    for change in trace.changes[: run.peak + 1]:
        if change.alive:
            alive.add(change.block)
        else:
            alive.discard(change.block)
    return alive
