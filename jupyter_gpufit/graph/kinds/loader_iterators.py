"""Iterators of a DataLoader that an earlier cell made: made anew at the other end by the call that made them.

Where they are is known to their workers, to torch's generators and to samplers that are suspended. So it is noted how
each is made, with the random generators as they were; at the other end it is made so again when it is first used, and
goes over what it had given. With workers these load it once more, for their datasets draw random numbers; without,
only the sampler goes over it.

One that a cell made goes to the notebook with what its sampler has left, as a list; the worker ends, and needs it no
more.

Refused, as all others of which nothing was noted: workers that stay (persistent_workers), data pipes, an
IterableDataset that has given something in this very process, and a sampler in use that would not give the same again;
see index_orders.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, IterDataPipe, MapDataPipe
from torch.utils.data.dataloader import (
    _BaseDataLoaderIter,
    _MultiProcessingDataLoaderIter,
    _SingleProcessDataLoaderIter,
)

from ..kind import Kind, Pickler, Reduced
from ..refusals import HOW_MADE, LOADERS_PLACE
from .index_orders import Drawn, IndexOrder, IndexSampler, at_the_beginning, drawing, is_same, put
from .instances import fill_instance, instance_state, make_instance, reduce_instance

_LIST_ITERATOR: type = type(iter([]))
_LISTED_AT_MOST = 1_000_000  # batches


def find(cls: type) -> Kind | None:
    if cls is MadeAnew:
        return Kind(reduce=reduce_made_anew, replaced=True)
    if cls is IndexOrder:
        return Kind(reduce=reduce_order, replaced=True)
    return Kind(reduce=reduce_noted, replaced=True) if issubclass(cls, _BaseDataLoaderIter) else None


@contextmanager
def noted() -> Iterator[None]:
    """Let every DataLoader note how it makes an iterator."""
    real = DataLoader._get_iterator

    def get_iterator(self: DataLoader[Any]) -> _BaseDataLoaderIter:
        before = at_the_beginning(self)
        made = real(self)
        if _can_be_made_anew(self):
            note(made, HowMade(_copy_of(self), before))
        return made

    DataLoader._get_iterator = get_iterator  # type: ignore[method-assign]
    try:
        yield
    finally:
        DataLoader._get_iterator = real  # type: ignore[method-assign]


@dataclass
class HowMade:
    """What an iterator is made by."""

    loader: DataLoader[Any]  # a copy
    before: Drawn


def note(made: Any, how: HowMade) -> None:
    vars(made)[HOW_MADE] = how
    # With workers it is not sent: it sees what the sampler draws.
    made._sampler_iter = IndexOrder(made._index_sampler, how.before, begun=made._sampler_iter)
    if not isinstance(made, _SingleProcessDataLoaderIter):
        made._sampler_iter.has_drawn()


def _can_be_made_anew(loader: DataLoader[Any]) -> bool:
    return not loader.persistent_workers and not isinstance(loader.dataset, MapDataPipe | IterDataPipe)


def _copy_of(loader: DataLoader[Any]) -> DataLoader[Any]:
    copied: DataLoader[Any] = object.__new__(type(loader))
    name = "batch_sampler" if loader._auto_collation else "sampler"
    vars(copied).update(vars(loader), _iterator=None)
    if not isinstance(loader.dataset, IterableDataset):
        sampler = vars(loader)[name]
        vars(copied)[name] = sampler if isinstance(sampler, IndexSampler) else IndexSampler(sampler)
    return copied


class MadeAnew(_BaseDataLoaderIter):
    """One that came from another process: it begins when it is first asked."""

    def __init__(self, how: HowMade, given: int, ended: bool, order: IndexOrder | None) -> None:
        vars(self)[HOW_MADE] = how
        self.given, self.ended, self.order = given, ended, order
        self.begun: Any = None

    @property
    def how(self) -> HowMade:
        found: HowMade = vars(self)[HOW_MADE]
        return found

    def __next__(self) -> Any:
        if self.ended:
            raise StopIteration
        if self.begun is None:
            self.begun = self._begin()
        return next(self.begun)

    def _begin(self) -> Any:
        loader = self.how.loader
        with drawing(loader, self.how.before):
            made: Any = loader._get_iterator()
            if self.order is None:
                self._go_over(made)
            elif not isinstance(loader.dataset, IterableDataset):
                made._sampler_iter, made._num_yielded = self.order, self.given
        return made

    def _go_over(self, made: Any) -> None:
        if not isinstance(made, _SingleProcessDataLoaderIter):
            for _ in range(self.given):
                next(made)
            return
        # In a trial run, which has no workers: what is loaded would be counted, and takes its time.
        of_stream = isinstance(self.how.loader.dataset, IterableDataset)
        for _ in range(self.given):
            made._next_data() if of_stream else next(made._sampler_iter)
        made._num_yielded = self.given

    def __len__(self) -> int:
        return len(self.how.loader)

    def __getattr__(self, name: str) -> Any:
        if "begun" not in vars(self) or name not in _names():  # IPython asks for what nothing has
            raise AttributeError(name)
        if self.begun is None:
            self.begun = self._begin()
        return getattr(self.begun, name)


@cache
def _names() -> frozenset[str]:
    """The attributes of torch's own iterators."""
    one = _SingleProcessDataLoaderIter(DataLoader[Any]([0], generator=torch.Generator()))  # type: ignore[arg-type]
    return frozenset({*vars(one), *_MultiProcessingDataLoaderIter.__init__.__code__.co_names})


def reduce_noted(obj: Any, pickler: Pickler) -> Reduced:
    how = vars(obj).get(HOW_MADE)
    if how is None:
        listed = _is_listed(obj) or (pickler.back and not pickler.is_snapshot and _list_what_is_left(obj))
        return reduce_instance(obj, pickler) if listed else pickler.refuse(obj, LOADERS_PLACE)
    given, order = obj._num_yielded, None
    if not _gives_it_again(obj, how):
        return pickler.refuse(obj, LOADERS_PLACE)
    if isinstance(obj, _SingleProcessDataLoaderIter):
        if given and isinstance(obj._dataset, IterableDataset):
            return pickler.refuse(obj, LOADERS_PLACE)
        order = obj._sampler_iter
    return _reduced(how, given, bool(vars(obj).get("_shutdown")), order)


def _is_listed(obj: Any) -> bool:
    return isinstance(obj, _SingleProcessDataLoaderIter) and type(obj._sampler_iter) is _LIST_ITERATOR


def _list_what_is_left(obj: Any) -> bool:
    """Whether it can be: a sampler that draws as it goes on is not to be asked before its time."""
    if not isinstance(obj, _SingleProcessDataLoaderIter) or isinstance(obj._dataset, IterableDataset):
        return False
    sampler, order, obj._sampler_iter = obj._index_sampler, obj._sampler_iter, None  # it can be asked once only
    if order is None or not hasattr(sampler, "__len__") or len(sampler) > _LISTED_AT_MOST:
        return False
    before = at_the_beginning(sampler)
    left = list(islice(order, _LISTED_AT_MOST))
    if not is_same(before, at_the_beginning(sampler)):
        put(sampler, before)
        return False
    obj._sampler_iter = iter(left)
    return True


def reduce_made_anew(obj: MadeAnew, pickler: Pickler) -> Reduced:
    if pickler.is_snapshot:
        return make_instance, (MadeAnew,), instance_state(obj), None, None, fill_instance
    if obj.begun is None:
        return _reduced(obj.how, obj.given, obj.ended, obj.order)
    if obj.order is not None and isinstance(obj.how.loader.dataset, IterableDataset):
        return pickler.refuse(obj, LOADERS_PLACE)
    if not _gives_it_again(obj.begun, obj.how):
        return pickler.refuse(obj, LOADERS_PLACE)
    return _reduced(obj.how, obj.begun._num_yielded, obj.ended or _has_ended(obj.begun), obj.order)


def reduce_order(obj: IndexOrder, pickler: Pickler) -> Reduced:
    return obj.__reduce__() if obj.goes_on() else pickler.refuse(obj, LOADERS_PLACE)


def _gives_it_again(made: Any, how: HowMade) -> bool:
    order = vars(made).get("_sampler_iter")  # none of one that has not started again after a resume
    if isinstance(how.loader.dataset, IterableDataset) or not isinstance(order, IndexOrder):
        return True
    return order.goes_on()


def _has_ended(made: Any) -> bool:
    """Of one that remembers its place, the place says so: after a resume torch's own word is yes until it starts."""
    if hasattr(made, "position"):
        return bool(made.position().ended)
    return bool(vars(made).get("_shutdown"))


def _reduced(*state: Any) -> Reduced:
    return make_instance, (MadeAnew,), state, None, None, fill_made_anew


def fill_made_anew(obj: MadeAnew, state: tuple[HowMade, int, bool, IndexOrder | None]) -> None:
    MadeAnew.__init__(obj, *state)
