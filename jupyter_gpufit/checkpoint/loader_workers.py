"""What runs in a DataLoader's workers, so that every batch brings its worker's random generators along."""

from __future__ import annotations

import itertools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import _utils, get_worker_info

from ..cell import rng

States = dict[str, Any]
_MANY = 10_000  # objects of a dataset that are looked at


@dataclass
class Carried:
    """A batch, and the worker's generators after it."""

    batch: Any
    states: States

    def pin_memory(self, device: Any = None) -> Carried:
        return Carried(_utils.pin_memory.pin_memory(self.batch, device), self.states)


@dataclass(frozen=True)
class Start:
    """The worker_init_fn: the user's own, then the generators of the worker in whose place this one is."""

    own: Callable[[int], None] | None
    states: dict[int, States]

    def __call__(self, worker: int) -> None:
        if self.own is not None:
            self.own(worker)
        info = get_worker_info()
        assert info is not None
        held = list(generators_in(info.dataset))
        if worker in self.states:
            put_states(self.states[worker], held)
        fetcher, dataset = _utils.fetch._MapDatasetFetcher, info.dataset
        real = fetcher.fetch

        def fetch(self: Any, index: Any) -> Any:
            batch = real(self, index)  # type: ignore[no-untyped-call]
            return Carried(batch, read_states(held)) if self.dataset is dataset else batch

        fetcher.fetch = fetch  # type: ignore[method-assign]  # in this process only, which serves this one loader


def read_states(held: list[Any]) -> States:
    return {**rng.states(), "held": [_read(one) for one in held]}


def put_states(states: States, held: list[Any]) -> None:
    rng.restore(states)
    for one, state in zip(held, states["held"], strict=True):
        _put(one, state)


def generators_in(root: Any) -> Iterator[Any]:
    """The random generators that a dataset holds, which go on in each worker by themselves."""
    todo: deque[Any] = deque([root])
    seen: set[int] = set()
    while todo and len(seen) < _MANY:
        obj = todo.popleft()
        if id(obj) in seen or isinstance(obj, (type, torch.Tensor, str, bytes, int, float)):
            continue
        seen.add(id(obj))
        if isinstance(obj, torch.Generator | random.Random) or _is_numpy_generator(obj):
            yield obj
        elif isinstance(obj, dict):
            todo.extend(itertools.islice(obj.values(), 100))
        elif isinstance(obj, list | tuple):
            todo.extend(obj[:100])
        else:
            todo.extend(getattr(obj, "__dict__", {}).values())


def _is_numpy_generator(obj: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(obj, numpy.random.Generator | numpy.random.RandomState)


def _read(generator: Any) -> Any:
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state()


def _put(generator: Any, state: Any) -> None:
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
