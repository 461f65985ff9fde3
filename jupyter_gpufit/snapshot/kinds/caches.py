"""What functions under lru_cache remember: a random draw that was cached is not to be drawn again.

Not covered: how often a cache was asked, `cache_info()`; and caches of modules, whose contents nobody can put back.
Those of the user's own modules are told of.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from ...graph.kind import Kind, Reduced
from ...graph.kinds.functions import has_its_name
from ..own_files import homes, is_own

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler
    from ..restoring import Restoring

Call: TypeAlias = tuple[tuple[Any, ...], dict[str, Any], Any]  # positional and named arguments, and the result

_NONE_YET = object()


def find(cls: type) -> Kind | None:
    return Kind(reduce=reduce_cached) if cls is functools._lru_cache_wrapper else None


def reduce_cached(fn: Any, pickler: SnapshotPickler) -> Reduced:
    if has_its_name(fn, pickler):
        if _is_own(fn) and fn.cache_info().currsize:
            _tell(fn, pickler)
        return NotImplemented
    parameters, calls = fn.cache_parameters(), calls_of(fn)
    if len(calls) != fn.cache_info().currsize or not _can_be_saved(calls, fn, pickler):
        _tell(fn, pickler)
        calls = []
    args = (fn.__wrapped__, parameters["maxsize"], parameters["typed"])
    return make_cached, args, (pickler.restoring, dict(fn.__dict__), calls), None, None, fill_cached


def _can_be_saved(calls: list[Call], fn: Any, pickler: SnapshotPickler) -> bool:
    """Or it is a file or the like, which the function opens again; those must not keep a training from being saved."""
    if id(fn) in pickler.tried:
        return True  # what it keeps leads to itself: it is being tried
    trial = type(pickler)(pickler.program, pickler.namespace, lambda address: None)
    trial.tried = pickler.tried | {id(fn)}
    try:
        trial.dump(calls)
    except Exception:
        return False
    return not trial.refusals


def _is_own(fn: Any) -> bool:
    file = getattr(sys.modules.get(fn.__module__), "__file__", None)
    return isinstance(file, str) and is_own(file, homes())


def _tell(fn: Any, pickler: SnapshotPickler) -> None:
    pickler.remarks.append(
        f"What {fn.__name__}() keeps by its lru_cache does not go along: from a checkpoint it is computed again."
    )


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

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named) if self.answer is _NONE_YET else self.answer


def make_cached(fn: Any, limit: int | None, typed: bool) -> Any:
    made = functools.lru_cache(limit, typed)(Answering(fn))
    functools.update_wrapper(made, fn)
    return made


def fill_cached(made: Any, state: tuple[Restoring, dict[str, Any], list[Call]]) -> None:
    restoring, own, calls = state
    made.__dict__.update(own)

    def fill() -> None:
        answering = next(one for one in gc.get_referents(made) if isinstance(one, Answering))
        for args, named, answering.answer in calls:
            made(*args, **named)
        answering.answer = _NONE_YET

    restoring.last.append(fill)  # what it was asked for must be whole, to be hashed
