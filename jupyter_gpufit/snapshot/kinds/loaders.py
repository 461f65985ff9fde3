"""Iterators of a DataLoader, in the middle of an epoch.

Without workers an iterator is its attributes. With workers, its state is in other processes: so every batch brings with
it the random generators of its worker, and the counters and other plain values that the dataset has changed there, as
they were after making it; and the iterator here keeps the indices that it has sent and not got back. Taken up again, it
starts workers with these, and they make those batches once more.

The place of an IterableDataset cannot be seen: taken up again, each worker begins anew with the same random numbers,
and goes through what it had given. That costs the time to make those batches, and is told where they are others.

Not covered, and refused: in_order=False, and an IterableDataset whose workers stay for the next epoch. What else a
dataset with indices changes of itself in a worker (a cache) does not go along, which is told.
"""

from __future__ import annotations

import hashlib
import inspect
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, IterDataPipe, MapDataPipe, _utils
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _DatasetKind,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance, reduce_instance
from ...graph.kinds.loader_iterators import MadeAnew
from ..loader_workers import Carried, Given, Marked, Start, States
from ..watched import WatchedState
from .loader_memory import LoaderMemory, Turns, copy_of, undisturbed
from .loader_proof import goes_on

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

APART = (
    "The IterableDataset of a DataLoader with workers did not give again what it had given before the checkpoint: what"
    " comes now is not what would have come. A dataset that depends on more than random numbers and its own attributes"
    " (a queue, the time) goes on exactly with num_workers=0 only."
)

# Of the source of _MultiProcessingDataLoaderIter and of the loop in its workers, on whose private names this rests.
# Any other is tried before it is used.
TESTED = {"53e339e52c2e846c": "2.13.0", "bf2c4f7637e43fad": "2.15.0"}


def source_hash() -> str:
    fetchers = (_utils.fetch._MapDatasetFetcher, _utils.fetch._IterableDatasetFetcher)
    parts = (_MultiProcessingDataLoaderIter, _utils.worker._worker_loop, *fetchers)
    return hashlib.sha256("".join(inspect.getsource(part) for part in parts).encode()).hexdigest()[:16]


@cache
def is_known() -> bool:
    """Whether iterators of this torch can be taken up again."""
    return source_hash() in TESTED or goes_on(RememberingIter, _taken_up)


@contextmanager
def remembered() -> Iterator[None]:
    """Let every DataLoader with workers make iterators that can be saved."""
    real = DataLoader._get_iterator

    def get_iterator(self: DataLoader[Any]) -> _BaseDataLoaderIter:
        if self.num_workers == 0 or why_not(self) is not None or not is_known():
            return real(self)
        self.check_worker_number_rationality()
        return RememberingIter(self)

    DataLoader._get_iterator = get_iterator  # type: ignore[method-assign]
    try:
        yield
    finally:
        DataLoader._get_iterator = real  # type: ignore[method-assign]


def why_not(loader: DataLoader[Any]) -> str | None:
    if isinstance(loader.dataset, (MapDataPipe, IterDataPipe)):
        return "its dataset is a data pipe, whose place in each worker cannot be seen. Use num_workers=0"
    if loader._dataset_kind != _DatasetKind.Map and loader.persistent_workers:
        return "its dataset is an IterableDataset and its workers stay. Leave persistent_workers out, or num_workers=0"
    if not loader.in_order:
        return "it has in_order=False, so that no batch has a certain place. Leave that out"
    return None


def find(cls: type) -> Kind | None:
    if issubclass(cls, RememberingIter):
        return Kind(reduce=reduce_remembering)
    if issubclass(cls, _SingleProcessDataLoaderIter):
        return Kind(reduce=reduce_instance)
    if issubclass(cls, _BaseDataLoaderIter) and cls is not MadeAnew:
        return Kind(reduce=refuse)
    return None


def refuse(obj: Any, pickler: SnapshotPickler) -> Reduced:
    if obj._dataset_kind != _DatasetKind.Map:
        why = (
            "its dataset is an IterableDataset: use num_workers=0"
            if not is_known() or not obj._persistent_workers
            else "its dataset is an IterableDataset and its workers stay: leave persistent_workers out"
        )
    elif not getattr(obj, "_in_order", True):
        why = "it has in_order=False: leave that out"
    elif is_known():
        why = "its class makes iterators of its own: use torch's DataLoader"
    else:
        why = f"the DataLoader of torch {torch.__version__} did not go on in a trial: use num_workers=0"
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
    given: dict[int, Given] = field(default_factory=dict)  # of an IterableDataset, by worker
    asked: list[int] = field(default_factory=list)  # the workers whose batches of it come next, in order


class RememberingIter(_MultiProcessingDataLoaderIter):
    """torch's own iterator, which knows where it is. One that was saved starts its workers when it is first used."""

    _memory: LoaderMemory

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._memory = LoaderMemory(copy_of(loader))
        self._memory.first = Start(loader.worker_init_fn, loader.collate_fn, {}, None).watched(loader.dataset).read()
        super().__init__(loader)

    # torch sets these while it makes an iterator. One that is taken up again has other values for them.

    @property
    def _worker_init_fn(self) -> Start:
        memory = self._memory
        own, collate, resuming = memory.own_start, memory.loader.collate_fn, memory.resuming
        if resuming is None:
            return Start(own, collate, {}, None)
        return Start(own, collate, resuming.states, resuming.first, resuming.given)

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
        resuming = self._memory.resuming
        return self._memory.sampler if resuming is None or resuming.sampler is None else resuming.sampler

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._memory.sampler = sampler

    @property  # type: ignore[override]  # of itertools.cycle it is only asked for the next
    def _worker_queue_idx_cycle(self) -> Turns:
        return self._memory.turns

    @_worker_queue_idx_cycle.setter
    def _worker_queue_idx_cycle(self, cycle: object) -> None:
        resuming = self._memory.resuming
        turn, before = (resuming.turn, list(resuming.asked)) if resuming else (0, [])
        self._memory.turns = Turns(self._num_workers, turn, before)

    def _next_index(self) -> Any:
        resuming = self._memory.resuming
        found = resuming.outstanding.pop(0) if resuming and resuming.outstanding else next(self._sampler_iter)
        self._memory.indices[self._send_idx] = found
        return found

    def _process_data(self, data: Any, worker_idx: int) -> Any:
        self._memory.indices.pop(self._rcvd_idx - 1, None)
        if isinstance(data, Carried):
            self._memory.states[worker_idx], data = data.states, data.batch
        elif isinstance(data, Marked):
            if data.apart:
                warnings.warn(APART, stacklevel=2)
            before = self._memory.given.get(worker_idx)
            self._memory.given[worker_idx] = Given(before.batches + 1 if before else 1, data.mark)
            data = data.batch
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
        with undisturbed(memory.loader.generator):
            _MultiProcessingDataLoaderIter.__init__(self, memory.loader)
        assert self._send_idx >= left, "fewer batches were asked for than had been"
        self._index_sampler = memory.loader._index_sampler
        memory.resuming, memory.states, memory.first = None, dict(position.states), position.first
        memory.given = dict(position.given)
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
        found: Position | None = memory.position
        if found is not None:
            return found
        if self._dataset_kind != _DatasetKind.Map:
            return self._position_in_stream()
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

    def remembers(self) -> Reduced:
        """How it goes to another process, the notebook's among them."""
        return make_instance, (type(self),), (self._memory.loader, self.position()), None, None, fill_remembering

    def _position_in_stream(self) -> Position:
        memory, asked = self._memory, []
        for _, (worker, *made) in sorted(self._task_info.items()):
            if made or self._workers_status[worker]:  # one whose part has ended is asked no more
                asked.append(worker)
        return Position(
            outstanding=[],
            sampler=None,
            turn=memory.turns.next,
            yielded=self._num_yielded,
            states={},
            seed=memory.seed,
            ended=self._shutdown,
            first=memory.first,
            given=dict(memory.given),
            asked=[*asked, *memory.turns.before],
        )


def reduce_remembering(obj: RememberingIter, pickler: SnapshotPickler) -> Reduced:
    position = obj.position()
    if lost := dict.fromkeys(f"`{name}`" for states in position.states.values() for name in states["held"].lost):
        pickler.remarks.append(
            f"The workers of a DataLoader have changed {', '.join(lost)}, which does not go along: from a checkpoint"
            " they begin with what was there before. If more than a cache is kept there, use num_workers=0."
        )
    return obj.remembers()


def fill_remembering(obj: RememberingIter, state: tuple[DataLoader[Any], Position]) -> None:
    loader, position = state
    vars(obj).update(_memory=LoaderMemory(loader, position=position, seed=position.seed), _shutdown=True)
    vars(obj).update(_num_workers=loader.num_workers, _num_yielded=position.yielded)


def _taken_up(loader: DataLoader[Any], position: Position) -> RememberingIter:
    """As after a resume."""
    made = RememberingIter.__new__(RememberingIter)
    fill_remembering(made, (loader, position))
    return made
