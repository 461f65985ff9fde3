"""What an iterator of a DataLoader with workers remembers, so that its place can be saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from ..loader_workers import Given, States
from ..watched import WatchedState


@dataclass
class Turns:
    """Which worker is sent the next indices: all in turn."""

    workers: int
    next: int = 0
    before: list[int] = field(default_factory=list)  # but these first

    def __next__(self) -> int:
        if self.before:
            return self.before.pop(0)
        found, self.next = self.next, (self.next + 1) % self.workers
        return found


@dataclass
class LoaderMemory:
    """What an iterator remembers beside what torch does."""

    loader: Any  # a copy: the loader itself may hold this iterator, and must be able to go
    indices: dict[int, Any] = field(default_factory=dict)  # by number of task
    states: dict[int, States] = field(default_factory=dict)
    given: dict[int, Given] = field(default_factory=dict)
    own_start: Any = None
    seed: int = 0
    first: WatchedState | None = None
    sampler: Any = None
    turns: Turns = field(default_factory=lambda: Turns(1))
    ahead: dict[int, int] = field(default_factory=dict)  # tasks that were sent for an epoch that was left: whose
    position: Any = None  # a Position, to be taken up when it is first used
    resuming: Any = None  # while that is done


def copy_of(loader: DataLoader[Any]) -> DataLoader[Any]:
    copied: DataLoader[Any] = object.__new__(type(loader))
    vars(copied).update(vars(loader), _iterator=None)
    return copied


@contextmanager
def undisturbed(generator: torch.Generator | None) -> Iterator[None]:
    """Making an iterator draws a seed."""
    drawn = [torch.default_generator, *([] if generator is None else [generator])]
    before = [one.get_state() for one in drawn]
    try:
        yield
    finally:
        for one, state in zip(drawn, before, strict=True):
            one.set_state(state)
