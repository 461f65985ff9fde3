"""Whether an iterator with workers can be left and taken up again with this torch, shown by doing so.

It rests on private names of torch. Where its text is not one that was tested, a small epoch of either kind of dataset
is left after its third batch, taken up again, and compared with one that was not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Protocol

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from ...system.unheard import unheard
from .loader_memory import undisturbed

_LENGTH, _LEFT_AFTER, _PATIENCE = 12, 3, 60  # items, batches, seconds


class CanBeLeft(Protocol):
    """An iterator that knows where it is."""

    def __next__(self) -> Any: ...

    def __iter__(self) -> Iterator[Any]: ...

    def position(self) -> Any: ...

    def _shutdown_workers(self) -> None: ...


class _Numbers(Dataset[Any]):
    """What it gives depends on the generators of its worker, and on what it has given."""

    given = 0

    def __len__(self) -> int:
        return _LENGTH

    def __getitem__(self, at: int) -> Any:
        self.given += 1
        return at, self.given, random.random(), torch.rand(()).item()


class _Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        assert info is not None
        for at in range(info.id, _LENGTH, info.num_workers):
            yield at, random.random(), torch.rand(()).item()


def goes_on(begun: Callable[[DataLoader[Any]], CanBeLeft], again: Callable[[DataLoader[Any], Any], CanBeLeft]) -> bool:
    """Whether what `again` makes of a position gives what the iterator that `begun` made would have given."""
    with undisturbed(None), unheard():
        try:
            return all(_goes_on(dataset, begun, again) for dataset in (_Numbers(), _Stream()))
        except Exception:  # a name that is there no more, or means something else
            return False


def _goes_on(dataset: Any, begun: Callable[..., CanBeLeft], again: Callable[..., CanBeLeft]) -> bool:
    loader = DataLoader(dataset, 2, num_workers=2, collate_fn=list, timeout=_PATIENCE, multiprocessing_context="fork")
    seed = torch.get_rng_state()
    whole = [*begun(loader)]
    torch.set_rng_state(seed)
    with closing(_Ended(begun(loader))) as left:
        first = [next(left.iterator) for _ in range(_LEFT_AFTER)]
        position = left.iterator.position()
    return len(whole) == _LENGTH // 2 and [*first, *again(loader, position)] == whole


class _Ended:
    """Its workers do not stay until somebody collects it."""

    def __init__(self, iterator: CanBeLeft) -> None:
        self.iterator = iterator

    def close(self) -> None:
        self.iterator._shutdown_workers()
