"""What functions under lru_cache remember: a model that one made and keeps is the model, and not to be made again.

Its entries are read by what the garbage collector tells of it, and are put into another one by asking that for them.
Not covered: how often a cache was asked, `cache_info()`; and what the worker adds to a cache of the notebook's, into
which nobody can put anything. That is told.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeAlias

from ..kind import Kind, Pickler, Reduced
from .functions import make_cached
from .generic import own_name

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any], Any]  # positional and named arguments, and the result

_NONE_YET = object()
_tried: set[int] = set()  # in which it is tried out what can travel, by their id()


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_cached) if cls is functools._lru_cache_wrapper else None


def reduce_cached(fn: Any, pickler: Pickler) -> Reduced:
    if has_its_name(fn, pickler):
        return NotImplemented
    parameters, calls = fn.cache_parameters(), calls_of(fn)
    args = fn.__wrapped__, parameters["maxsize"], parameters["typed"]
    if calls and not _can_travel(calls, fn, pickler):
        pickler.remarks.append(f"What {fn.__name__}() keeps by its lru_cache stays here: the cell computes it again.")
        calls = []
    if not calls:
        return make_cached, args, fn.__dict__ or None
    return make_answering, args, (dict(fn.__dict__), calls), None, None, fill_cached


def has_its_name(fn: Any, pickler: Pickler) -> bool:
    """A cache that code of the user's put around a library's function has that function's, and is not found by it."""
    is_the_notebooks = getattr(fn.__wrapped__, "__globals__", None) is pickler.namespace or fn.__module__ == "__main__"
    return not is_the_notebooks and own_name(fn) is not None


def _can_travel(calls: list[Call], fn: Any, pickler: Pickler) -> bool:
    """Or it is an open socket or the like, which must not keep the function from travelling."""
    if id(fn) in _tried:
        return True  # what it keeps leads to itself
    _tried.add(id(fn))
    try:
        trial = pickler.beside()
        trial.dump(calls)
    except Exception:
        return False
    finally:
        _tried.discard(id(fn))
    return not trial.refusals


def calls_of(fn: Any) -> list[Call]:
    """What it would answer without computing, the oldest first."""
    held = gc.get_referents(fn)
    [cache] = [one for one in held if type(one) is dict and one is not fn.__dict__]
    if not cache:
        return []
    if fn.cache_parameters()["maxsize"] is None:
        entries = list(cache.items())
    else:  # a chain of links, of which each shows its key, its result and its type
        link = type(next(iter(cache.values())))
        entries = [(held[at - 2], held[at - 1]) for at, one in enumerate(held) if one is link][: len(cache)]
    return [(*_arguments(key, fn.cache_parameters()["typed"]), result) for key, result in entries]


def _arguments(key: Any, typed: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """From a key: one int or text alone, or a tuple; named arguments stand behind a mark, and types at the end."""
    if not isinstance(key, tuple):
        return (key,), {}
    mark = next((at for at, one in enumerate(key) if one is _mark()), None)
    plain = key if mark is None else key[:mark]
    if mark is None:
        return (plain[: len(plain) // 2] if typed else plain), {}
    named = key[mark + 1 :]
    if typed:
        named = named[: len(named) - (len(plain) + (len(named) - len(plain)) // 3)]
    return plain, dict(zip(named[::2], named[1::2], strict=True))


@functools.cache
def _mark() -> object:
    """What the caches of this process put before named arguments."""

    @functools.cache
    def probe(**named: int) -> None: ...

    probe(a=1)
    [cache] = [one for one in gc.get_referents(probe) if type(one) is dict and one is not probe.__dict__]
    [key] = cache
    return key[0]


class Answering:
    """The function, which a cache asks for what it does not know; but while it is filled, what was known."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.answer = function, _NONE_YET
        self.known = 0  # entries that it was filled with

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named) if self.answer is _NONE_YET else self.answer


def make_answering(fn: Any, limit: int | None, typed: bool) -> Any:
    return functools.lru_cache(limit, typed)(Answering(fn))


def fill_cached(made: Any, state: tuple[dict[str, Any], list[Call]]) -> None:
    own, calls = state
    made.__dict__.update(own)
    fill(made, calls)


def fill(made: Any, calls: list[Call]) -> None:
    answering = _answering(made)
    for args, named, answering.answer in calls:
        with suppress(Exception):  # what it was asked for has a hash of its own, and is not whole yet
            made(*args, **named)
    answering.answer = _NONE_YET
    answering.known = made.cache_info().misses


def _answering(made: Any) -> Any:
    return next((one for one in gc.get_referents(made) if isinstance(one, Answering)), None)


def grown(objects: Iterable[Any]) -> list[str]:
    """Of the caches among these, those that have computed something since they were filled, by name."""
    caches = [one for one in objects if type(one) is functools._lru_cache_wrapper]
    return [one.__name__ for one in caches if one.cache_info().misses > getattr(_answering(one), "known", 0)]
