"""What runs in a DataLoader's workers.

Of a dataset with indices, every batch brings along what goes on by itself there. An IterableDataset is asked once more
for the batches that it had given, which are thrown away: it begins with the same random numbers. Each batch brings its
checksum, so that it is seen where that does not come to the same.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import IterableDataset, _utils, get_worker_info

from ..surroundings import generators
from .watched import Watched, WatchedState

States = dict[str, Any]  # the process's generators, and under "held" what else goes on there


@dataclass
class Carried:
    """A batch, and what its worker had after it."""

    batch: Any
    states: States

    def pin_memory(self, device: Any = None) -> Carried:
        return Carried(_utils.pin_memory.pin_memory(self.batch, device), self.states)


@dataclass(frozen=True)
class Given:
    """What a worker has given of its part of an IterableDataset."""

    batches: int
    mark: int  # of the last


@dataclass
class Marked:
    """A batch of an IterableDataset."""

    batch: Any
    mark: int
    apart: bool = False  # what came before it was not what this worker had given

    def pin_memory(self, device: Any = None) -> Marked:
        return Marked(_utils.pin_memory.pin_memory(self.batch, device), self.mark, self.apart)


@dataclass(frozen=True)
class Start:
    """The worker_init_fn: the user's own, then what the worker had in whose place this one is."""

    own: Callable[[int], None] | None
    collate: Any
    states: dict[int, States]
    first: WatchedState | None  # of the generators when the first workers were started
    given: dict[int, Given] = field(default_factory=dict)  # of an IterableDataset, by worker

    def watched(self, dataset: Any) -> Watched:
        return Watched({"dataset": dataset, "collate_fn": self.collate, "worker_init_fn": self.own})

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        if self.first is not None:
            self.watched(info.dataset).put(self.first)
        if self.own is not None:
            self.own(worker)
        if isinstance(info.dataset, IterableDataset):
            self._ask_again(info.dataset, self.given.get(worker))
            return
        watched = self.watched(info.dataset)
        if worker in self.states:
            generators.restore(self.states[worker])
            watched.put(self.states[worker]["held"])
        fetcher, dataset = _utils.fetch._MapDatasetFetcher, info.dataset
        real = fetcher.fetch

        def fetch(self: Any, index: Any) -> Any:
            batch = real(self, index)  # type: ignore[no-untyped-call]
            return Carried(batch, {**generators.states(), "held": watched.read()}) if self.dataset is dataset else batch

        fetcher.fetch = fetch  # type: ignore[method-assign]  # in this process only, which serves this one loader

    def _ask_again(self, dataset: Any, given: Given | None) -> None:
        fetcher, todo = _utils.fetch._IterableDatasetFetcher, [given] if given else []
        real = fetcher.fetch

        def fetch(self: Any, index: Any) -> Any:
            if self.dataset is not dataset:
                return real(self, index)  # type: ignore[no-untyped-call]
            apart = False
            if todo:
                was, last = todo.pop(), 0
                try:
                    for _ in range(was.batches):
                        last = mark(real(self, index))  # type: ignore[no-untyped-call]
                except StopIteration:
                    self.ended = True
                apart = last != was.mark
            batch = real(self, index)  # type: ignore[no-untyped-call]
            return Marked(batch, mark(batch), apart)

        fetcher.fetch = fetch  # type: ignore[method-assign]  # in this process only, which serves this one loader


def mark(value: Any, begun: int = 0) -> int:
    """A checksum of numbers and texts, in whatever they lie."""
    numpy = sys.modules.get("numpy")
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.is_quantized:
            return begun
        data = value.detach().resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)
        return zlib.crc32(data.numpy().data, begun)
    if numpy is not None and isinstance(value, numpy.ndarray) and not value.dtype.hasobject:
        return zlib.crc32(value.tobytes(), begun)
    if isinstance(value, dict):
        value = [part for item in value.items() for part in item]
    if isinstance(value, (list, tuple)):
        for one in value:
            begun = mark(one, begun)
        return begun
    known = isinstance(value, (int, float, complex, str, bytes, type(None)))
    return zlib.crc32(repr(value).encode(), begun) if known else begun
