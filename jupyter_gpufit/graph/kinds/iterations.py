"""itertools' objects at their position, by what they hold: from Python 3.14 on they cannot be pickled any more.

What one refers to is told by the garbage collector, the numbers beside it are read from its memory; which word is what
was tried here on objects whose position is known (tests/graph/test_iterations.py), and a class of another size than the
known ones is not read. What is made from it gives the same items in the same order.

Not read: product, permutations, combinations, groupby and tee. Up to Python 3.13 they pickle themselves; from 3.14 on
they are refused by name.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...system.unheard import unheard
from ..kind import Kind, Pickler, Reduced

_WORD = ctypes.sizeof(ctypes.c_ssize_t)
_LAST_THAT_PICKLES = (3, 13)
Words = list[Any]  # what a field refers to (None also where it refers to nothing), or its number


def find(cls: type) -> Kind | None:
    # Where they are cannot be set in place, so the names that hold one get a new one.
    return Kind(reduce=reduce_iteration, replaced=True) if cls.__module__ == "itertools" else None


def reduce_iteration(obj: Any, pickler: Pickler) -> Reduced:
    cls = type(obj)
    if cls in _READ and _is_as_known(cls):
        layout, again = _READ[cls]
        return again(*_words(obj, layout))
    if sys.version_info[:2] > _LAST_THAT_PICKLES:
        return pickler.refuse(
            obj, f"an itertools.{cls.__name__}, whose place cannot be told. Go over a list: list({cls.__name__}(...))."
        )
    with _unwarned():
        return make_as_pickled, (*obj.__reduce__(), None)[:3]


def make_as_pickled(make: Any, args: tuple[Any, ...], state: Any) -> Any:
    with _unwarned():
        made = make(*args)
        if state is not None:
            made.__setstate__(state)
        return made


@contextmanager
def _unwarned() -> Iterator[None]:
    """Of what it will be like in Python 3.14, of which the user need not hear."""
    with unheard(DeprecationWarning):
        yield


def _is_as_known(cls: type) -> bool:
    if sys.implementation.name != "cpython" or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return cls.__basicsize__ in range(
        _least_size(cls), _least_size(cls) + 2 * _WORD + 1
    )  # later ones have a cache more


def _least_size(cls: type) -> int:
    return object.__basicsize__ + _WORD * len(_READ[cls][0])


_NULL = object()


def _words(obj: Any, layout: str) -> Words:
    """`layout`: o an object, n a number, b a byte that says yes or no."""
    known = {id(one): one for one in gc.get_referents(obj)}
    start = id(obj) + object.__basicsize__
    words: Words = []
    for at, kind in enumerate(layout):
        if kind == "b":
            words.append(bool(ctypes.c_byte.from_address(start + at * _WORD).value))
            continue
        word = ctypes.c_ssize_t.from_address(start + at * _WORD).value
        words.append(word if kind == "n" else known[word] if word else _NULL)
    return words


def _iterated(it: Any) -> Any:
    """What is used up refers to nothing any more."""
    return () if it is _NULL else it


# Each gives how to make one that goes on: a function, and its arguments.


def _count(number: int, beyond: Any, step: Any) -> Reduced:
    return itertools.count, (number if beyond is _NULL else beyond, step)


def _repeat(element: Any, left: int) -> Reduced:
    return itertools.repeat, (element,) if left < 0 else (element, left)


def _chain(rest: Any, active: Any) -> Reduced:
    return make_chain, (_iterated(rest), None if active is _NULL else active)


def make_chain(rest: Iterable[Any], active: Iterator[Any] | None) -> Any:
    left = itertools.chain.from_iterable(rest)
    return left if active is None else itertools.chain(active, left)


def _cycle(it: Any, seen: Any, at: int) -> Reduced:
    if it is _NULL:
        return itertools.cycle, (seen[at:] + seen[:at],)
    return make_cycle, (it, list(seen))


def make_cycle(it: Iterator[Any], seen: list[Any]) -> Any:
    made = itertools.cycle(itertools.chain(seen, it))
    for _ in seen:
        next(made)
    return made


def _islice(it: Any, following: int, stop: int, step: int, taken: int) -> Reduced:
    if it is _NULL:
        return itertools.islice, ((), 0)
    return itertools.islice, (it, following - taken, None if stop < 0 else max(0, stop - taken), step)


def _pairwise(it: Any, before: Any) -> Reduced:
    return make_pairwise, (_iterated(it), [] if before is _NULL else [before])


def make_pairwise(left: Any, before: list[Any]) -> Any:
    return itertools.pairwise(itertools.chain(before, left) if before else left)


def _takewhile(wanted: Any, it: Any, ended: int) -> Reduced:
    return itertools.takewhile, (wanted, () if ended & 0xFFFFFFFF else it)


def _dropwhile(dropped: Any, it: Any, began: int) -> Reduced:
    return itertools.dropwhile, (nothing if began & 0xFFFFFFFF else dropped, it)


def nothing(one: Any) -> bool:
    """Drops no more."""
    return False


def _accumulate(total: Any, it: Any, function: Any, initial: Any) -> Reduced:
    function = None if function is _NULL else function
    if total is _NULL:
        return make_accumulate, (it, function, None if initial is _NULL else initial)
    return make_accumulated, (it, function, total)


def make_accumulate(it: Any, function: Any, initial: Any) -> Any:
    return itertools.accumulate(it, function, initial=initial)


def make_accumulated(it: Any, function: Any, total: Any) -> Any:
    made = itertools.accumulate(itertools.chain([total], it), function)
    next(made)
    return made


def _zip_longest(count: int, active: int, its: Any, given: Any, instead: Any) -> Reduced:
    # Those that are used up are empty places of the tuple, which Python itself must not look at.
    known = {id(one): one for one in gc.get_referents(its)}
    first = id(its) + tuple.__basicsize__
    found = [ctypes.c_ssize_t.from_address(first + at * _WORD).value for at in range(count)]
    return make_zip_longest, ([known[one] if one else () for one in found] if active else [], instead)


def make_zip_longest(its: list[Any], instead: Any) -> Any:
    return itertools.zip_longest(*its, fillvalue=instead)


def _batched(it: Any, size: int, *strict: bool) -> Reduced:
    return make_batched, (_iterated(it), size, any(strict))


def make_batched(it: Any, size: int, strict: bool) -> Any:
    batched: Any = itertools.batched  # type: ignore[attr-defined, unused-ignore]  # from Python 3.12 on
    return batched(it, size, strict=True) if strict else batched(it, size)


def _over(make: Any) -> Callable[..., Reduced]:
    """Of those that hold nothing but what they were given."""
    return lambda *words: (make, tuple(words))


_READ: dict[type, tuple[str, Callable[..., Reduced]]] = {
    itertools.count: ("noo", _count),
    itertools.repeat: ("on", _repeat),
    itertools.chain: ("oo", _chain),
    itertools.cycle: ("oon", _cycle),
    itertools.islice: ("onnnn", _islice),
    itertools.pairwise: ("oo", _pairwise),
    itertools.takewhile: ("oon", _takewhile),
    itertools.dropwhile: ("oon", _dropwhile),
    itertools.filterfalse: ("oo", _over(itertools.filterfalse)),
    itertools.starmap: ("oo", _over(itertools.starmap)),
    itertools.compress: ("oo", _over(itertools.compress)),
    itertools.accumulate: ("oooo", _accumulate),
    itertools.zip_longest: ("nnooo", _zip_longest),
}
if hasattr(itertools, "batched"):
    _READ[itertools.batched] = ("onb" if sys.version_info >= (3, 13) else "on", _batched)
