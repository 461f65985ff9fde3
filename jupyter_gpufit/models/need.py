"""The bytes that a model takes on its device, before it has run and after; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..units import MiB, format_bytes
from .taken import TakenModel

RUNTIME = 64 * MiB  # of the process itself on a CPU: with a model of 40 B, ONNX Runtime 1.32 took 64.6 MiB
MARGIN = 0.1  # of what is alive: an arena's blocks are larger than what is asked of it
MEASURED_MARGIN = 0.1  # between two runs of one model


@dataclass(frozen=True, kw_only=True)
class ModelNeed:
    """What a model will take, by kind, in bytes."""

    weights: int
    file: int  # what of the file is in memory while it is loaded, beside the weights
    activations: int  # alive at once, with as many rows as are run at once
    runtime: int  # of the process itself: ONNX Runtime on a CPU, a driver's context on a GPU
    unknown: tuple[str, ...] = ()  # operators whose results' sizes cannot be foreseen

    @property
    def activations_with_margin(self) -> int:
        return round(self.activations * (1 + MARGIN))

    @property
    def total(self) -> int:
        """A model is loaded first and runs afterwards: the larger of the two counts."""
        return self.runtime + self.weights + max(self.file, self.activations_with_margin)

    @property
    def words(self) -> str:
        """ "44.6 MiB of weights, 12.0 MiB alive at once" """
        words = f"{format_bytes(self.weights)} of weights, {format_bytes(self.activations)} alive at once"
        return f"{words} (without what {', '.join(self.unknown)} make)" if self.unknown else words


@dataclass(frozen=True, kw_only=True)
class SeveralNeed:
    """What several models on one device take: one of them runs at a time, and not all weights need be there."""

    weights: tuple[int, ...]  # bytes of each
    activations: int  # of the largest
    runtime: int

    @property
    def fixed(self) -> int:
        return self.runtime + round(self.activations * (1 + MARGIN))

    @property
    def total(self) -> int:
        """All of them; while the last one is loaded, its file is in memory, too."""
        return self.runtime + sum(self.weights) + max(*self.weights, self.fixed - self.runtime)

    @property
    def least(self) -> int:
        return self.fixed + max(self.weights)

    def room(self, memory: int) -> int | None:
        """Bytes for weights, of a claim of so many; None: all of them are there at once."""
        return None if memory >= self.total else memory - self.fixed

    @property
    def words(self) -> str:
        return f"{format_bytes(sum(self.weights))} of weights, {format_bytes(self.activations)} alive at once"


def need_of_several(models: Iterable[TakenModel], context: int) -> SeveralNeed:
    """`context`: bytes of a driver's; 0 on a CPU slot."""
    found = list(models)
    return SeveralNeed(
        weights=tuple(one.weights for one in found),
        activations=max(one.activations or 0 for one in found),
        runtime=context or RUNTIME,
    )


@dataclass(frozen=True)
class NeedWords:
    """What is claimed, and where the number comes from."""

    memory: int
    reason: str


def claimed(need: ModelNeed, measured: Sequence[int]) -> NeedWords:
    """What to claim: what it took before where that is known, or else what is foreseen."""
    foreseen = f"{format_bytes(need.total)} were expected"
    if measured:
        most = round(max(measured) * (1 + MEASURED_MARGIN))
        return NeedWords(most, f"claims {format_bytes(most)}: it took {format_bytes(max(measured))} before; {foreseen}")
    return NeedWords(need.total, f"claims {format_bytes(need.total)}: {need.words}")
