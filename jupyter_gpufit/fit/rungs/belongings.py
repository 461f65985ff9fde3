"""What a module has and is given beside tensors, as it stood when it was called: lists, dicts, sets, plain objects.

A decoder's layers add to a cache of keys and values; a layer counts its calls, keeps its last output in a list, or
draws from a generator of Python's or of NumPy's; and its caller, or another layer, changes them meanwhile. A second run
finds all these as the first one found them, and leaves them as they are. Where it cannot, since there are too many, or
one is of a kind that does more than to hold what is put into it, that is said.

Not seen is what lies past containers and attributes: a file, objects with slots, variables of the notebook.
"""

from __future__ import annotations

import io
import pickle
import random
import sys
import threading
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from ...graph.kinds.draws import put_state, read_state
from ...system.objects import is_generator

_MOST = 2000  # objects that are looked at
_MOST_INSIDE = 20_000  # entries of all of them together
_BYTES_AS_ONE = 64  # entry, of an array
_SIMPLE = (str, bytes, int, float, complex, type(None), nn.Module, type, ModuleType, FunctionType)
_NOT_ENTERED = (*_SIMPLE, io.IOBase, threading.Thread)  # the last two are at work meanwhile
_CONTAINERS = (list, deque, set, dict)
_BASES = (OrderedDict, dict, list, deque, set, tuple, frozenset)  # the first one knows its order
_PLAIN = (list, deque, set, dict, OrderedDict, defaultdict)  # others may do more than to hold what is put into them
_BARE = frozenset(vars(nn.Module()))  # what every module has


def of_module(module: nn.Module) -> list[Any]:
    """Objects that it has, beside what makes it a module."""
    return [value for name, value in vars(module).items() if not name.startswith("_") or name not in _BARE]


class Belongings:
    """How all that can be reached from some objects stood at one moment."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.tensors: list[torch.Tensor] = []  # those among it, until a forward has run
        self.is_whole = True  # all of it was looked at
        self._held: list[_Held] = []
        left, known, inside = deque([*_of_everybody(), *roots]), set[int](), 0
        while left:
            one = left.popleft()
            if id(one) in known or isinstance(one, _NOT_ENTERED):
                continue
            known.add(id(one))
            if isinstance(one, torch.Tensor):
                self.tensors += [] if one.is_inference() else [one]
                continue
            for looked_at in _looked_at(one):
                inside += _size_of(looked_at)
                if len(known) > _MOST or inside > _MOST_INSIDE:
                    self.is_whole = False
                    return
                self._held.append(held := _Held.now(looked_at))
                left.extend(held.parts)

    def ran(self) -> bool:
        """A forward has run. Whether what it changed can be put back."""
        self.tensors = []
        changed = [held for held in self._held if held.is_changed]
        # Others may change the rest before the second run; but what did not draw from a generator will not.
        self._held = [held for held in self._held if not isinstance(held.then, _State) or held.is_changed]
        self.is_whole = self.is_whole and all(held.can_be_put_back for held in changed)
        return self.is_whole

    @contextmanager
    def again(self) -> Iterator[bool]:
        """Have it as it stood before that run; afterwards as it stands now. Whether it does stand so."""
        changed = [held for held in self._held if held.is_changed]
        if not self.is_whole or not all(held.can_be_put_back for held in changed):
            yield False
            return
        now = [_Held.now(held.by) for held in changed]
        try:
            for held in changed:
                held.put_back()
            yield True
        finally:
            for held in now:
                held.put_back()


def state_in_brief(generator: Any) -> Any:
    """What differs once it was drawn from; None for what is no generator of Python's or NumPy's."""
    return pickle.dumps(read_state(generator)) if _draws(generator) else None


class _State(NamedTuple):
    """A generator's."""

    state: Any


class _Held(NamedTuple):
    """A container or a generator, and a copy of what was in it."""

    by: Any
    then: Any

    @classmethod
    def now(cls, one: Any) -> _Held:
        if _draws(one):
            return cls(one, _State(read_state(one)))
        if _is_array(one):
            return cls(one, one.tobytes())
        base = _base_of(one)
        return cls(one, dict(base.items(one)) if isinstance(one, dict) else list(base.__iter__(one)))

    @property
    def parts(self) -> list[Any]:
        if isinstance(self.then, (_State, bytes)):
            return []
        return list(self.then.values() if isinstance(self.then, dict) else self.then)

    @property
    def is_changed(self) -> bool:
        now = _Held.now(self.by)
        if isinstance(self.then, bytes):
            return bool(now.then != self.then)
        if isinstance(self.then, _State):
            return not _equal(now.then.state, self.then.state)
        names = [list(map(id, then)) if isinstance(then, dict) else [] for then in (now.then, self.then)]
        return names[0] != names[1] or list(map(id, now.parts)) != list(map(id, self.parts))

    @property
    def can_be_put_back(self) -> bool:
        return type(self.by) in _PLAIN or isinstance(self.then, _State)

    def put_back(self) -> None:
        if isinstance(self.then, _State):
            put_state(self.by, self.then.state)
        elif isinstance(self.by, dict):
            for name in [name for name in self.by if name not in self.then]:
                del self.by[name]
            self.by.update(self.then)
            if list(self.by) != list(self.then):
                self.by.clear()
                self.by.update(self.then)
        else:
            self.by.clear()
            self.by.extend(self.then) if isinstance(self.by, (list, deque)) else self.by.update(self.then)


def _looked_at(one: Any) -> list[Any]:
    """It, where it holds something, and its attributes."""
    attributes = getattr(one, "__dict__", None)
    holds = isinstance(one, (*_CONTAINERS, tuple, frozenset)) or _draws(one) or _is_array(one)
    return [*([one] if holds else []), *([attributes] if type(attributes) is dict else [])]


def _size_of(one: Any) -> int:
    if _draws(one):
        return 0
    if _is_array(one):
        return _MOST_INSIDE + 1 if one.dtype.hasobject else int(one.nbytes) // _BYTES_AS_ONE
    return int(_base_of(one).__len__(one))


def _base_of(one: Any) -> Any:
    """What says how much is in a container: its own class may say something else, or that nobody may ask."""
    return next(base for base in _BASES if isinstance(one, base))


def _is_array(one: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(one, numpy.ndarray)


def _of_everybody() -> list[Any]:
    """The generators behind `random.random()` and `np.random.rand()`."""
    numpy = sys.modules.get("numpy.random")
    return [vars(random)["_inst"], *([numpy.get_state.__self__] if numpy else [])]


def _draws(one: Any) -> bool:
    return is_generator(one) and not isinstance(one, torch.Generator)  # seen.py refuses who holds one


def _equal(state: Any, other: Any) -> bool:
    """NumPy's is a dict with an array somewhere in it."""
    if isinstance(state, dict):
        return all(_equal(value, other[name]) for name, value in state.items())
    return bool(state.tobytes() == other.tobytes() if hasattr(state, "tobytes") else state == other)
