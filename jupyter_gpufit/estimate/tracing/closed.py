"""What can be said when the trace fails: the bytes that parameters alone imply; pure but for `count`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...devices.card import Card
from ...devices.cards import Context
from ...units import format_bytes
from ..reckoning.margins import how_cut_short
from ..reckoning.record import Trace
from ..reckoning.report import NO_GPU, Estimate

# Copies of the trainable parameters that an optimizer keeps. Those not named here keep two at most.
_STATES = {"SGD": 1, "Adagrad": 1, "RMSprop": 1, "Adafactor": 0, "SparseAdam": 2, "Rprop": 2}
_MOST_STATES = 2


@dataclass(frozen=True)
class CountedBytes:
    """The models among a cell's variables."""

    parameters: int = 0  # bytes, buffers included
    trainable: int = 0  # bytes of those
    states: int = _MOST_STATES  # copies of the trainable ones in the optimizer

    @property
    def least(self) -> int:
        """Bytes that training holds at the least: parameters, gradients, the optimizer's state."""
        return self.parameters + self.trainable * (1 + self.states)


def count(values: Iterable[Any]) -> CountedBytes:
    """Look at a namespace's modules and optimizers; a tensor of several models counts once."""
    import torch

    values = list(values)
    # By their types alone: `isinstance` asks the object, which may be anything.
    modules = [value for value in values if issubclass(type(value), torch.nn.Module)]
    tensors = {id(t): t for module in modules for t in (*module.parameters(), *module.buffers())}
    trained = sum(t.nbytes for t in tensors.values() if t.requires_grad)
    kinds = [type(value).__name__ for value in values if issubclass(type(value), torch.optim.Optimizer)]
    states = max((_STATES.get(kind, _MOST_STATES) for kind in kinds), default=_MOST_STATES)
    return CountedBytes(sum(t.nbytes for t in tensors.values()), trained, states)


def estimate_without_trace(
    counted: CountedBytes, trace: Trace, card: Card, context: Context, seen: int = 0
) -> Estimate:
    """The lower bound, with no upper one: what activations add is from nothing to thirty times as much.

    `seen`: bytes in tensors at the peak of as much of the trace as there is, often the forward.
    """
    least = max(counted.least, seen)
    known = {"parameters": counted.parameters, "gradients": counted.trainable}
    known |= {"optimizer state": counted.trainable * counted.states}
    if not counted.least:
        known = {}
    why = why_no_trace(trace)
    doubt = (trace.doubt,) if trace.doubt and not trace.cut_short else ()
    if trace.cut_short and trace.trained:
        doubt = (how_cut_short(trace),)
    return Estimate(
        card=card.name,
        card_total=card.total,
        how="closed form" if known else "nothing",
        context=context.bytes,
        low=least + context.bytes,
        by_kind=_nonzero(known | {"context": context.bytes}),
        closed_form=counted.least,
        confidence="low",
        reasons=(why, *doubt, *(() if why == NO_GPU else _what_is_missing(counted)), *_what_was_seen(seen, counted)),
        steps=trace.steps,
        seconds=trace.seconds,
        needs_none=not trace.cut_short and not trace.doubt,
    )


def why_no_trace(trace: Trace) -> str:
    """What became of the trace, in a sentence's half."""
    match trace.status:
        case "timeout" | "failed" | "died" if trace.trained and not trace.changes:
            return NO_GPU
        case "timeout":
            where = f" ({trace.where})" if trace.where else ""
            return f"the cell did not come to its second optimizer step in {trace.seconds:.0f} s{where}"
        case "failed":
            return f"the cell failed without a device: {trace.what_went_wrong}"
        case "died":
            return f"the trial run could not be made: {trace.what_went_wrong}"
        case _:
            return NO_GPU


def _what_is_missing(counted: CountedBytes) -> tuple[str, ...]:
    if counted.least:
        return (f"counted from the cell's models alone ({format_bytes(counted.parameters)}): activations are missing",)
    return ("no model is among the variables that the cell was given",)


def _what_was_seen(seen: int, counted: CountedBytes) -> tuple[str, ...]:
    if seen <= counted.least:
        return ()
    return (f"as far as the trial run came, the cell held {format_bytes(seen)} in tensors",)


def _nonzero(sizes: Mapping[str, int]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size}
