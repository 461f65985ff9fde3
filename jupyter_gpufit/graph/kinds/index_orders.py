"""The order in which a sampler gives its indices, so that another process can go on in the middle of it.

The sampler is asked anew there, with the random generators as they were, and goes over what it had given. That is the
same order only where all that it depends on is as it was when it began: its own attributes (a counter of epochs, a
list that it shuffles in place, a generator of numpy's), and what it draws later, between which nobody else may have
drawn. Both are looked at, and where it is otherwise, or cannot be told, its own iterator goes as it stands, if it can.

Not covered: what a sampler reads from elsewhere, as the labels of its data set, a global variable or the clock.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import GEN_CREATED, getgeneratorstate
from types import GeneratorType
from typing import Any

import torch
from torch.utils.data import DataLoader

from .sampler_states import state_of

Drawn = dict[Any, Any]  # states of generators
_DEEP = 8  # a loader's batch sampler's sampler's sampler ...
_STATE = "state"  # among the states of generators: the sampler's own


class IndexSampler:
    """A sampler whose iterators can be saved wherever they are."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> IndexOrder:
        before = at_the_beginning(self.sampler)
        return IndexOrder(self.sampler, before, begun=iter(self.sampler))

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        if name == "sampler" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.sampler, name)


class IndexOrder:
    """What a sampler gives, in its order: elsewhere it is asked anew, with the random generators as they were."""

    def __init__(
        self,
        sampler: Any,
        before: Drawn,
        first: Drawn | None = None,
        given: int = 0,
        has_begun: bool = False,
        begun: Any = None,
        alone: bool = True,
    ) -> None:
        self._sampler, self._before, self._begun = sampler, before, begun
        self._first = first  # before it gave its first: most samplers draw only then
        self._given, self._has_begun = given, has_begun
        self._last: Drawn | None = None  # as it would find the generators elsewhere
        self._alone = alone  # nobody has drawn between two of its own

    def __iter__(self) -> IndexOrder:
        return self

    def __next__(self) -> Any:
        if self._begun is None:
            self._begin_anew()
        before = drawn(self._sampler)
        if self._first is None:
            self._first = before
        if self._last is None:
            self._last = before
        try:
            found = next(self._begun)
        finally:
            after = drawn(self._sampler)
            for which in (one for one in before if not _is_same(before[one], after.get(one))):
                self._alone = self._alone and _is_same(self._last.get(which), before[which])
                self._last = {**self._last, which: after.get(which)}
        self._given += 1
        return found

    def has_drawn(self) -> None:
        """It has begun, up to here alone."""
        self._last, self._has_begun = drawn(self._sampler), True

    def goes_on(self) -> bool:
        """Whether it would go on elsewhere where it is."""
        return not self._is_in_use() or (self._alone and self._is_as_it_was())

    def _is_in_use(self) -> bool:
        if self._has_begun or self._given or self._begun is None:
            return self._has_begun or self._given > 0
        if isinstance(self._begun, IndexOrder):
            return self._begun._is_in_use()
        return not isinstance(self._begun, GeneratorType) or getgeneratorstate(self._begun) != GEN_CREATED

    def _is_as_it_was(self) -> bool:
        return (then := self._before.get(_STATE)) is not None and _state(self._sampler) == then

    def _begin_anew(self) -> None:
        if self._is_in_use() and not self._is_as_it_was():
            raise RuntimeError(
                "A sampler was changed after an earlier cell had begun to take from a DataLoader that has it, so that"
                " what would come next is not known any more. Call iter(loader) in the cell that uses it."
            )
        with drawing(self._sampler, self._before):
            self._begun = iter(self._sampler)
            if self._first is not None:
                put(self._sampler, self._first)
                for _ in range(self._given):
                    next(self._begun, None)
                self._last = drawn(self._sampler)

    def __reduce__(self) -> Any:
        if self.goes_on():
            return IndexOrder, (self._sampler, self._before, self._first, self._given, self._is_in_use())
        return IndexOrder, (self._sampler, self._before, self._first, self._given, True, self._begun, False)


# Random generators: the process's, and those that a loader and its samplers have


def at_the_beginning(of: Any) -> Drawn:
    """Of a loader or a sampler, before it is asked for its iterator."""
    return drawn(of) | {_STATE: _state(of._index_sampler if isinstance(of, DataLoader) else of)}


def _state(sampler: Any) -> bytes | None:
    return state_of(sampler, [one for _, one in _own(sampler)])


def _is_same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        return bool(one.equal(other))
    try:
        return bool(one == other)
    except ValueError:  # numpy's tuple has an array in it
        return bool((one == other).all()) if hasattr(one, "all") else all(map(_is_same, one, other))


def drawn(of: Any) -> Drawn:
    found: Drawn = {"python": random.getstate(), "torch": torch.default_generator.get_state()}
    if "numpy" in sys.modules:
        found["numpy"] = sys.modules["numpy"].random.get_state()
    return found | {place: one.get_state() for place, one in _own(of)}


def put(of: Any, states: Drawn) -> None:
    random.setstate(states["python"])
    torch.default_generator.set_state(states["torch"])
    if "numpy" in states and "numpy" in sys.modules:
        sys.modules["numpy"].random.set_state(states["numpy"])
    for place, one in _own(of):
        if place in states:
            one.set_state(states[place])


@contextmanager
def drawing(of: Any, states: Drawn) -> Iterator[None]:
    """With the generators in these states, and afterwards as they are now."""
    now = drawn(of)
    put(of, states)
    try:
        yield
    finally:
        put(of, now)


def _own(of: Any) -> Iterator[tuple[tuple[int, str], torch.Generator]]:
    """Those of a loader's sampler have the same place as seen from the sampler."""
    depth, owner = 0, of
    if isinstance(of, DataLoader):
        if isinstance(of.generator, torch.Generator):
            yield (-1, "generator"), of.generator
        owner = of._index_sampler
    while owner is not None and depth < _DEEP:
        inside = vars(owner) if hasattr(owner, "__dict__") else {}
        if not isinstance(owner, IndexSampler):
            yield from (((depth, name), one) for name, one in inside.items() if isinstance(one, torch.Generator))
            depth += 1
        owner = inside.get("sampler")
