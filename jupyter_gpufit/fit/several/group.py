"""What is asked of the ranks that train one cell together, and two groups that are no processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from ..clock import clock


class Group(Protocol):
    """The ranks of one job. Each of them makes the same calls in the same order, with tensors of the same looks.

    What a call returns has the same bits on all ranks: whatever follows from it must come to the same everywhere.
    Tensors are dense and contiguous, of any dtype of torch (bool and half precision, too), on the rank's own device,
    and need no gradient.
    """

    @property
    def rank(self) -> int:
        """This one's number, from 0."""

    @property
    def size(self) -> int:
        """How many there are."""

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """Put the sum over the ranks in place of each one's tensor."""

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """The tensors of all ranks, by rank; they have the same shape."""

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        """Put one rank's tensor in place of each one's."""

    def offer(self, find: Callable[[int, str], torch.Tensor | None]) -> None:
        """Have the others read, at any time, what is found of a number and a name."""

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        """Fill `out`, on the host, with what another rank offers; no call that all make. Raises PartGone."""


@dataclass(frozen=True)
class Alone:
    """One rank."""

    rank: int = 0
    size: int = 1

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """It is the sum already."""

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        return [tensor.clone()]

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        """It is there already."""

    def offer(self, find: Callable[[int, str], torch.Tensor | None]) -> None:
        """Nobody reads."""

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        """There is no other."""


@dataclass(frozen=True)
class ShapesOnly:
    """One rank of many of which the others are not there: for a trial run, where values do not count."""

    size: int
    rank: int = 0

    def all_reduce(self, tensor: torch.Tensor) -> None:
        """The sum has the same shape."""
        clock.meet(tensor.nbytes)

    def all_gather(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        clock.meet(self.size * tensor.nbytes // 2)
        return [tensor.clone() for _ in range(self.size)]

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        """It has the same shape."""
        clock.meet(tensor.nbytes)

    def offer(self, find: Callable[[int, str], torch.Tensor | None]) -> None:
        """Nobody reads."""

    def read(self, rank: int, number: int, name: str, out: torch.Tensor) -> None:
        """It has the same shape."""
