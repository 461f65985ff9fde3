"""What runs in a DataLoader's workers, so that every batch brings along what goes on by itself there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import _utils, get_worker_info

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
class Start:
    """The worker_init_fn: the user's own, then what the worker had in whose place this one is."""

    own: Callable[[int], None] | None
    collate: Any
    states: dict[int, States]
    first: WatchedState | None  # of the generators when the first workers were started

    def watched(self, dataset: Any) -> Watched:
        return Watched({"dataset": dataset, "collate_fn": self.collate, "worker_init_fn": self.own})

    def __call__(self, worker: int) -> None:
        info = get_worker_info()
        assert info is not None
        if self.first is not None:
            self.watched(info.dataset).put(self.first)
        if self.own is not None:
            self.own(worker)
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
