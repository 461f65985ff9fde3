"""Iterators of compiled code that cannot be saved (Arrow's readers, pandas' rows, those of Rust): made again as the
loop made them, by a call or of what it goes over, and with what they had given left out.

That this gives the same again is not taken on trust: the last item is kept, and compared with the one made again.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator, Mapping
from types import GeneratorType
from typing import Any

from ...system.objects import module_of
from .iterators import EXCHANGED

# What these modules give is saved otherwise, or to call them again does something.
_NOT_BY_CALLS = frozenset({"sqlite3", "_io", "_csv", "itertools"})
_OPAQUE: dict[type, bool] = {}  # those that have been asked


class MadeOtherwise(Exception):
    """Its text says what the call was."""


class CallOfALoop:
    """What a loop calls for its iterator."""

    __slots__ = ("_callee", "_target")

    def __init__(self, callee: Any, target: Any) -> None:
        self._callee, self._target = callee, target

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._target(*args, **kwargs)
        return Counted(made, self._callee, args, kwargs) if is_opaque(made) else made


def over(callee: Any, target: Any) -> Any:
    return target if isinstance(callee, type) else CallOfALoop(callee, target)


def is_opaque(made: Any) -> bool:
    """Whether it is an iterator that shows nobody where it is, or one of Python's own around such."""
    cls = type(made)
    if cls is GeneratorType or not hasattr(cls, "__next__") or isinstance(made, io.IOBase):
        return False
    if module_of(cls).partition(".")[0] in _NOT_BY_CALLS:
        return False
    if cls in EXCHANGED:
        return any(map(is_opaque, _parts(made)))
    if cls not in _OPAQUE:
        _OPAQUE[cls] = _refuses(made)
    return _OPAQUE[cls]


def _refuses(made: Any) -> bool:
    try:
        made.__reduce_ex__(4)
    except TypeError:
        return True
    except Exception:
        return False
    return False


def of(source: Any, iterator: Any) -> Any:
    """What a loop goes over: the iterator of `source`, or what stands in its place."""
    if source is None or iterator is source or not is_opaque(iterator):
        return iterator
    return Counted(iterator, iter, (source,), {})


def _parts(made: Any) -> tuple[Any, ...]:
    try:
        return tuple(made.__reduce__()[1])
    except (TypeError, IndexError):
        return ()


class Counted:
    """One of them, and what it was made by. It stands in its place for whoever goes over it."""

    def __init__(self, iterator: Any, callee: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]):
        self._iterator, self._call = iterator, (callee, args, dict(kwargs))
        self._given, self._last = 0, None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._last = found = next(self._iterator)
        self._given += 1
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    def state(self) -> tuple[Any, ...]:
        return (*self._call, self._given, self._last)

    def go_on(self, state: tuple[Any, ...]) -> None:
        """Make it again, and go to where it was."""
        callee, args, kwargs, given, last = state
        iterator, found = iter(callee(*args, **kwargs)), None
        for number in range(given):
            try:
                found = next(iterator)
            except StopIteration:
                raise MadeOtherwise(f"{_name(callee)}() gave {given} items, and gives {number} now") from None
        if given and not _same(found, last):
            raise MadeOtherwise(f"{_name(callee)}() gives other items now than it gave")
        self._iterator, self._call, self._given, self._last = iterator, (callee, args, kwargs), given, last


def _name(callee: Any) -> str:
    return str(getattr(callee, "__qualname__", callee))


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    try:
        if pickle.dumps(one) == pickle.dumps(other):
            return True
    except Exception:
        pass  # it is asked itself
    try:
        return bool(one == other)
    except Exception:
        return False  # of arrays, whose bytes have been compared
