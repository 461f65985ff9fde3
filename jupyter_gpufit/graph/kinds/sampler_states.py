"""What a sampler's own attributes are, in a few bytes: to know elsewhere, and later, whether they still are.

A data set is only known by its length: a sampler mostly counts it. Of what has no readable attributes nothing is said.
"""

from __future__ import annotations

import hashlib
import marshal
import random
from collections.abc import Sequence
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import torch
from torch.utils.data import Dataset

MOST = 10_000  # objects
MOST_BYTES = 1 << 26  # altogether
_DATA = frozenset({"data_source", "dataset"})
_PLAIN = (type(None), bool, int, float, complex, str, bytes)


class _Unknown(Exception):
    """Nobody can tell from outside what it holds."""


def state_of(sampler: Any, noted: Sequence[torch.Generator]) -> bytes | None:
    """None: that cannot be told. `noted`: whose states somebody else knows."""
    found = _Found(noted)
    try:
        found.take(sampler)
    except Exception:  # the objects are the user's
        return None
    return found.hash.digest()


class _Found:
    def __init__(self, noted: Sequence[torch.Generator]) -> None:
        self.noted = {id(one) for one in noted}
        self.bytes = 0
        self.hash = hashlib.blake2b(digest_size=16)
        self.seen: dict[int, tuple[int, Any]] = {}  # by id: their number; kept, so that no other gets the id

    def take(self, value: Any) -> None:
        if isinstance(value, _PLAIN):
            return self.say(repr(value))
        if id(value) in self.seen:
            return self.say("again", self.seen[id(value)][0])
        self.seen[id(value)] = len(self.seen), value
        if len(self.seen) > MOST:
            raise _Unknown
        kind = type(value)
        self.say(kind.__qualname__)
        if isinstance(value, Dataset):
            self.say(_length(value))
        elif isinstance(value, (list, tuple, dict)):
            self._take_contents(value)
        elif isinstance(value, range):
            self.say(value)
        elif isinstance(value, (set, frozenset)) and all(isinstance(one, _PLAIN) for one in value):
            self.say(sorted(map(repr, value)))
        elif isinstance(value, torch.Tensor):
            self._take_bytes(value.detach().contiguous().view(-1).view(torch.uint8).numpy(), value.dtype, value.shape)
        elif isinstance(value, torch.Generator):
            self.say([] if id(value) in self.noted else value.get_state().tolist())
        elif isinstance(value, random.Random):
            self.say(value.getstate())
        elif isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            self.say(value.__qualname__)
        elif isinstance(value, MethodType):
            self.take([value.__func__, value.__self__])
        elif isinstance(value, partial):
            self.take([value.func, value.args, value.keywords])
        else:
            self._take_object(value)

    def _take_contents(self, value: Any) -> None:
        """At once where all is plain, as of a million indices."""
        try:
            # Version 0 says nothing of which are the same object, which another process need not know.
            self._take_bytes(marshal.dumps(value, 0))
        except ValueError:
            self.say(len(value))
            for one in [*value.items()] if isinstance(value, dict) else value:
                self.take(one)

    def _take_object(self, value: Any) -> None:
        kind = type(value)
        if kind.__module__.partition(".")[0] == "numpy":
            self._take_numpys(value)
        elif not hasattr(value, "__dict__"):
            raise _Unknown
        elif kind.__name__ == "IndexSampler" and kind.__module__.endswith(".index_orders"):
            self.take(value.sampler)
        else:
            for name, held in vars(value).items():
                self.say(name)
                self.say(_length(held)) if name in _DATA else self.take(held)

    def _take_numpys(self, value: Any) -> None:
        if hasattr(value, "bit_generator"):
            self.take(value.bit_generator.state)
        elif hasattr(value, "get_state"):  # RandomState
            self.take(value.get_state(legacy=False))
        elif hasattr(value, "tobytes") and not value.dtype.hasobject:
            self._count(value.nbytes)
            self._take_bytes(value.tobytes(), value.dtype, value.shape)
        else:
            raise _Unknown

    def _take_bytes(self, found: Any, *of: Any) -> None:
        self._count(memoryview(found).nbytes)
        self.say(*of)
        self.hash.update(found)

    def _count(self, more: int) -> None:
        self.bytes += more
        if self.bytes > MOST_BYTES:
            raise _Unknown

    def say(self, *words: Any) -> None:
        self.hash.update(repr(words).encode())


def _length(data: Any) -> int:
    return len(data) if hasattr(type(data), "__len__") else -1
