"""What a module has and is given beside tensors, as it stood when it was called: lists, dicts, sets, plain objects.

A decoder's layers add to a cache of keys and values; a layer counts its calls, keeps its last output in a list, or
draws from a generator of Python's or of NumPy's. A second run finds all these as the first one found them, and leaves
them as they are.

Not seen is what lies past containers and attributes: a file, an array's numbers, objects with slots, a generator that
is a variable of the notebook.
"""

from __future__ import annotations

import random
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

_MOST = 2000  # objects that are looked at
_NOT_ENTERED = (str, bytes, int, float, complex, type(None), torch.Tensor, nn.Module, type, ModuleType, FunctionType)
_CONTAINERS = (list, deque, set, dict)
_PLAIN = (list, deque, set, dict, OrderedDict, defaultdict)  # others may do more than to hold what is put into them
_BARE = frozenset(vars(nn.Module()))  # what every module has


def of_module(module: nn.Module) -> list[Any]:
    """Objects that it has, beside what makes it a module."""
    return [value for name, value in vars(module).items() if not name.startswith("_") or name not in _BARE]


class Belongings:
    """How all that can be reached from some objects stood at one moment."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self._held: list[_Held] = []
        self._whole = True  # all of it was looked at
        left, known = deque([*_of_everybody(), *roots]), set[int]()
        while left and self._whole:
            one = left.popleft()
            if id(one) in known or isinstance(one, _NOT_ENTERED):
                continue
            known.add(id(one))
            self._whole = len(known) < _MOST
            held = _Held.now(one)
            self._held.append(held)
            left.extend(held.parts)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Those in containers and plain objects."""
        parts = (one for held in self._held for one in held.parts)
        return [one for one in parts if isinstance(one, torch.Tensor) and not one.is_inference()]

    def ran(self) -> bool:
        """A forward has run: what it changed is kept, and the rest forgotten. Whether all of that can be put back."""
        self._held = [held for held in self._held if held.is_changed]
        return not self._held or (self._whole and all(held.can_be_put_back for held in self._held))

    @contextmanager
    def again(self) -> Iterator[None]:
        """Have it as it stood before that run; afterwards as it stands now."""
        changed = [held for held in self._held if held.can_be_put_back]
        now = [_Held.now(held.by) for held in changed]
        for held in changed:
            held.put_back()
        try:
            yield
        finally:
            for held in now:
                held.put_back()


class _State(NamedTuple):
    """A generator's."""

    state: Any


class _Held(NamedTuple):
    """A container, an object or a generator, and a copy of what was in it."""

    by: Any
    then: Any

    @classmethod
    def now(cls, one: Any) -> _Held:
        if _is_generator(one):
            return cls(one, _State(_state_of(one)))
        if isinstance(one, dict):
            return cls(one, dict(one))
        if isinstance(one, (list, tuple, deque, set, frozenset)):
            return cls(one, list(one))
        attributes = getattr(one, "__dict__", None)
        return cls(one, dict(attributes) if isinstance(attributes, dict) else ())

    @property
    def parts(self) -> list[Any]:
        if isinstance(self.then, _State):
            return []
        return list(self.then.values() if isinstance(self.then, dict) else self.then)

    @property
    def is_changed(self) -> bool:
        now = _Held.now(self.by)
        if isinstance(self.then, _State):
            return not _equal(now.then.state, self.then.state)
        names = [list(map(id, then)) if isinstance(then, dict) else [] for then in (now.then, self.then)]
        return names[0] != names[1] or list(map(id, now.parts)) != list(map(id, self.parts))

    @property
    def can_be_put_back(self) -> bool:
        return type(self.by) in _PLAIN or not isinstance(self.by, _CONTAINERS)

    def put_back(self) -> None:
        if isinstance(self.then, _State):
            _set_state(self.by, self.then.state)
            return
        inside = self.by if isinstance(self.by, _CONTAINERS) else self.by.__dict__
        inside.clear()
        inside.extend(self.then) if isinstance(inside, (list, deque)) else inside.update(self.then)


def _of_everybody() -> list[Any]:
    """The generators behind `random.random()` and `np.random.rand()`."""
    numpy = sys.modules.get("numpy.random")
    return [vars(random)["_inst"], *([numpy.get_state.__self__] if numpy else [])]


def _is_generator(one: Any) -> bool:
    if isinstance(one, random.Random):
        return not isinstance(one, random.SystemRandom)  # which has no state
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(one, (numpy.Generator, numpy.RandomState))


def _state_of(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state(legacy=False)


def _equal(state: Any, other: Any) -> bool:
    """NumPy's is a dict with an array somewhere in it."""
    if isinstance(state, dict):
        return all(_equal(value, other[name]) for name, value in state.items())
    return bool(state.tobytes() == other.tobytes() if hasattr(state, "tobytes") else state == other)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
