"""Which values of a graph are alive together, and what that comes to; pure.

A value lives from the node that makes it to the last one that reads it. The most bytes that live at one node are what
an allocator must have that gives back at once whatever nobody reads any more; what it keeps beside that is a margin.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class GraphStep:
    """One node of a graph: the values that it reads and makes; `inside`: what its own graphs take at most, in bytes."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]
    inside: int = 0


@dataclass(frozen=True)
class Peak:
    """The most that is alive, and where."""

    bytes: int
    step: int = -1  # its place among the steps; -1: before the first


def peak(steps: Sequence[GraphStep], sizes: Mapping[str, int], given: Collection[str], kept: Collection[str]) -> Peak:
    """The peak of the values whose sizes are known; those `given` live all the time, and those `kept` to the end."""
    last = {name: at for at, step in enumerate(steps) for name in step.reads}
    alive = {name: sizes.get(name, 0) for name in given}
    most = Peak(sum(alive.values()))
    for at, step in enumerate(steps):
        alive |= {name: sizes.get(name, 0) for name in step.makes}
        now = sum(alive.values()) + step.inside
        if now > most.bytes:
            most = Peak(now, at)
        for name in {*step.reads, *step.makes}:
            if last.get(name, at) <= at and name not in kept and name not in given:
                alive.pop(name, None)
    return most
