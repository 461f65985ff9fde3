"""Iterators of a DataLoader, in the middle of an epoch.

Without workers an iterator is its attributes. With workers, its state is in other processes: so every batch brings with
it the random generators of its worker, and the counters and other plain values that the dataset has changed there, as
they were after making it; and the iterator here keeps the indices that it has sent and not got back. Taken up again, it
starts workers with these, and they make those batches once more.

Not covered, and refused: IterableDataset with workers, and in_order=False. What else a dataset changes of itself in a
worker (a cache) does not go along, which is told.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, MapDataPipe, _utils
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance, reduce_instance
from ..loader_workers import Carried, Start, States
from ..watched import WatchedState

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

# Of the source of _MultiProcessingDataLoaderIter and of the loop in its workers, on whose private names this rests.
TESTED = {"a0ba76425cb91525": "2.13.0"}


def source_hash() -> str:
    parts = (_MultiProcessingDataLoaderIter, _utils.worker._worker_loop, _utils.fetch._MapDatasetFetcher)
    return hashlib.sha256("".join(inspect.getsource(part) for part in parts).encode()).hexdigest()[:16]


@contextmanager
def remembered() -> Iterator[None]:
    """Let every DataLoader with workers make iterators that can be saved, where its code is known to us."""
    real = DataLoader._get_iterator

    def get_iterator(self: DataLoader[Any]) -> _BaseDataLoaderIter:
        if self.num_workers == 0 or why_not(self) is not None:
            return real(self)
        self.check_worker_number_rationality()
        return RememberingIter(self)

    known = source_hash() in TESTED
    if known:
        DataLoader._get_iterator = get_iterator  # type: ignore[method-assign]
    try:
        yield
    finally:
        if known:
            DataLoader._get_iterator = real  # type: ignore[method-assign]


def why_not(loader: DataLoader[Any]) -> str | None:
    if loader._dataset_kind != _DatasetKind.Map or isinstance(loader.dataset, MapDataPipe):
        return "its dataset is an IterableDataset, whose place in each worker cannot be seen. Use num_workers=0"
    if not loader.in_order:
        return "it has in_order=False, so that no batch has a certain place. Leave that out"
    return None


def find(cls: type) -> Kind | None:
    if issubclass(cls, RememberingIter):
        return Kind(reduce=reduce_remembering)
    if issubclass(cls, _SingleProcessDataLoaderIter):
        return Kind(reduce=reduce_instance)
    if issubclass(cls, _BaseDataLoaderIter):
        return Kind(reduce=refuse)
    return None


def refuse(obj: Any, pickler: SnapshotPickler) -> Reduced:
    if obj._dataset_kind != _DatasetKind.Map:
        why = "its dataset is an IterableDataset: use num_workers=0"
    elif not getattr(obj, "_in_order", True):
        why = "it has in_order=False: leave that out"
    else:
        why = f"it is of torch {torch.__version__}, whose DataLoader is not known here, or of a class of its own"
    return pickler.name_it(obj, f"a DataLoader's iterator with workers, whose place cannot be saved: {why}.")


@dataclass
class Position:
    """Where an iterator is."""

    outstanding: list[Any]  # the indices that were sent and whose batches were not yielded, in order
    sampler: Any  # the iterator that gives the next ones
    turn: int  # the worker that makes the first of them
    yielded: int
    states: dict[int, States]  # of each worker, after the last batch of its that was yielded
    seed: int
    ended: bool
    first: WatchedState | None = None  # what went on by itself in the workers, when the first of them were started


@dataclass
class _Turns:
    """Which worker is sent the next indices: all in turn."""

    workers: int
    next: int = 0

    def __next__(self) -> int:
        found, self.next = self.next, (self.next + 1) % self.workers
        return found


@dataclass
class _Memory:
    """What an iterator remembers beside what torch does."""

    loader: Any  # a copy: the loader itself may hold this iterator, and must be able to go
    indices: dict[int, Any] = field(default_factory=dict)  # by number of task
    states: dict[int, States] = field(default_factory=dict)
    own_start: Any = None
    seed: int = 0
    first: WatchedState | None = None
    sampler: Any = None
    turns: _Turns = field(default_factory=lambda: _Turns(1))
    ahead: dict[int, int] = field(default_factory=dict)  # tasks that were sent for an epoch that was left: whose
    position: Position | None = None  # to be taken up when it is first used
    resuming: Position | None = None  # while that is done


class RememberingIter(_MultiProcessingDataLoaderIter):
    """torch's own iterator, which knows where it is. One that was saved starts its workers when it is first used."""

    _memory: _Memory

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._memory = _Memory(_copy(loader))
        self._memory.first = Start(loader.worker_init_fn, loader.collate_fn, {}, None).watched(loader.dataset).read()
        super().__init__(loader)

    # torch sets these while it makes an iterator. One that is taken up again has other values for them.

    @property
    def _worker_init_fn(self) -> Start:
        memory = self._memory
        states, first = (memory.resuming.states, memory.resuming.first) if memory.resuming else ({}, None)
        return Start(memory.own_start, memory.loader.collate_fn, states, first)

    @_worker_init_fn.setter
    def _worker_init_fn(self, own: Any) -> None:
        self._memory.own_start = own

    @property
    def _base_seed(self) -> int:
        return self._memory.seed

    @_base_seed.setter
    def _base_seed(self, seed: int) -> None:
        self._memory.seed = self._memory.resuming.seed if self._memory.resuming else seed

    @property
    def _index_sampler(self) -> Any:
        return self._memory.resuming.sampler if self._memory.resuming else self._memory.sampler

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._memory.sampler = sampler

    @property  # type: ignore[override]  # of itertools.cycle it is only asked for the next
    def _worker_queue_idx_cycle(self) -> _Turns:
        return self._memory.turns

    @_worker_queue_idx_cycle.setter
    def _worker_queue_idx_cycle(self, cycle: object) -> None:
        self._memory.turns = _Turns(self._num_workers, self._memory.resuming.turn if self._memory.resuming else 0)

    def _next_index(self) -> Any:
        resuming = self._memory.resuming
        found = resuming.outstanding.pop(0) if resuming and resuming.outstanding else next(self._sampler_iter)
        self._memory.indices[self._send_idx] = found
        return found

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        self._memory.indices.pop(self._rcvd_idx - 1, None)
        if isinstance(data, Carried):
            self._memory.states[worker_idx], data = data.states, data.batch
        return super()._process_data(data, worker_idx)  # type: ignore[no-untyped-call]

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        """A new epoch with the same workers. What they made ahead for an epoch that was left has used their numbers."""
        if self._memory.position is not None:
            self._start()
        if not first_iter:
            for task, info in sorted(self._task_info.items()):
                self._memory.indices.pop(task, None)
                if len(info) == 2 and isinstance(info[1], Carried):
                    self._memory.states[info[0]] = info[1].states
            self._memory.ahead = {task: info[0] for task, info in self._task_info.items()}
        super()._reset(loader, first_iter)
        self._memory.ahead = {}

    def _get_data(self) -> Any:
        task, data = found = super()._get_data()  # type: ignore[no-untyped-call]
        if isinstance(data, Carried) and task in self._memory.ahead:  # of the epoch before; torch throws it away
            self._memory.states[self._memory.ahead[task]] = data.states
        return found

    def __next__(self) -> Any:
        if self._memory.position is not None:
            self._start()
        return super().__next__()

    def __len__(self) -> int:
        return len(self._memory.loader._index_sampler)

    def _start(self) -> None:
        memory = self._memory
        position, memory.position = memory.position, None
        assert position is not None
        if position.ended and not memory.loader.persistent_workers:
            self._end(position)
            return
        left = len(position.outstanding)
        memory.resuming = Position(**vars(position))
        memory.resuming.outstanding = list(position.outstanding)
        with _undisturbed(memory.loader.generator):
            _MultiProcessingDataLoaderIter.__init__(self, memory.loader)
        assert self._send_idx >= left, "fewer batches were asked for than had been"
        self._index_sampler = memory.loader._index_sampler
        memory.resuming, memory.states, memory.first = None, dict(position.states), position.first
        self._num_yielded = position.yielded

    def _end(self, position: Position) -> None:
        """What torch leaves of an iterator that has come to its end."""
        self._send_idx = self._rcvd_idx = 0
        self._num_yielded, self._task_info = position.yielded, {}
        self._profile_name, self._sampler_iter = "enumerate(DataLoader)", iter(())
        self._workers, self._workers_status, self._persistent_workers = [], [], False
        self._dataset_kind, self._worker_pids_set = _DatasetKind.Map, False

    def position(self) -> Position:
        memory = self._memory
        if memory.position is not None:
            return memory.position
        waiting = [memory.indices[task] for task in range(self._rcvd_idx, self._send_idx)]
        return Position(
            outstanding=waiting,
            sampler=self._sampler_iter,
            turn=(memory.turns.next - len(waiting)) % memory.turns.workers,
            yielded=self._num_yielded,
            states=dict(memory.states),
            seed=memory.seed,
            ended=self._shutdown,
            first=memory.first,
        )


def _copy(loader: DataLoader[Any]) -> DataLoader[Any]:
    copied: DataLoader[Any] = object.__new__(type(loader))
    vars(copied).update(vars(loader), _iterator=None)
    return copied


@contextmanager
def _undisturbed(generator: torch.Generator | None) -> Iterator[None]:
    """Making an iterator draws a seed."""
    drawn = [torch.default_generator, *([] if generator is None else [generator])]
    before = [one.get_state() for one in drawn]
    try:
        yield
    finally:
        for one, state in zip(drawn, before, strict=True):
            one.set_state(state)


def reduce_remembering(obj: RememberingIter, pickler: SnapshotPickler) -> Reduced:
    position = obj.position()
    if lost := dict.fromkeys(f"`{name}`" for states in position.states.values() for name in states["held"].lost):
        pickler.remarks.append(
            f"The workers of a DataLoader have changed {', '.join(lost)}, which does not go along: from a checkpoint"
            " they begin with what was there before. If more than a cache is kept there, use num_workers=0."
        )
    state = (obj._memory.loader, position)
    return make_instance, (type(obj),), state, None, None, fill_remembering


def fill_remembering(obj: RememberingIter, state: tuple[DataLoader[Any], Position]) -> None:
    loader, position = state
    vars(obj).update(_memory=_Memory(loader, position=position, seed=position.seed), _shutdown=True)
    vars(obj).update(_num_workers=loader.num_workers, _num_yielded=position.yielded)
