"""Which functions a forward calls, in their order, and how each goes with rows: found once, and followed then."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Literal

from .drawn import Draws, Unlike

Way = Literal[
    "plain",  # it is not given rows
    "alike",  # it makes of rows what does not depend on them
    "rows",  # of rows it makes rows
    "sum",  # over the batch
    "mean",
    "loss",  # of torch's, that is a sum or a mean over the batch
    "norm",  # with statistics of the batch
    "whole",  # what no other way is known for: each rank computes it of whole tensors
]


@dataclass(frozen=True)
class Along:
    """Where the rows of something are that a call makes."""

    dim: int
    by_value: bool = False  # how many depends on the values


Cuts = tuple[tuple[int, int], ...]  # by their places: a tensor with all samples along this dimension, or their number


@dataclass
class ScriptLine:
    """One call."""

    name: str
    shapes: list[tuple[int, ...]]  # of what it makes of the whole batch
    way: Way = "plain"
    along: list[Along | None] = field(default_factory=list)  # of what it makes; None: it is whole
    cuts: Cuts = ()  # of what it is given beside rows

    @property
    def elements(self) -> int:
        return sum(map(prod, self.shapes))


@dataclass
class Script:
    """All calls of one forward."""

    calls: list[ScriptLine] = field(default_factory=list)
    draws: Draws = field(default_factory=Draws)
    changes: bool = False  # in place, what it is given

    @property
    def wholes(self) -> int:
        """How many calls all ranks make of whole tensors: none is best."""
        return sum(one.way == "whole" for one in self.calls)

    @property
    def parts(self) -> bool:
        """Whether most of what it makes of rows, by size, is rows; else it is not samples that were parted."""
        parted = sum(one.elements for one in self.calls if one.way in ("rows", "norm"))
        return parted > 0 and parted >= sum(one.elements for one in self.calls if one.way == "whole")

    def line(self, at: int, name: str) -> ScriptLine:
        if at >= len(self.calls) or self.calls[at].name != name:
            raise Unlike(f"it calls {name.strip('_')} where it called something else")
        return self.calls[at]

    def again(self) -> Script:
        """To be learnt anew."""
        return Script([ScriptLine(one.name, one.shapes) for one in self.calls], self.draws.again())
