"""Generators: those that have not begun are made again from their function and its arguments.

One that is suspended in between is made to stand where it did, if that can be told (see midway). Where a program may be
left midway a generator must be of code that was made for it, and that is there only when the program runs: what arrives
in a worker is made when it is first asked for an item (`batches = cycle(loader)` in an earlier cell).
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any, Protocol

from ..kind import Kind, Pickler, Reduced
from ..refusals import GENERATOR, in_use
from . import midway
from .midway import AtYield

Recipe = tuple[Callable[..., Any], tuple[Any, ...]]


class Rewriting(Protocol):
    """In a worker: generators of code that can be left midway."""

    def remade(self, generator: Any) -> Any: ...
    def brought(
        self, generator: Any, line: int, values: dict[str, Any], its: Iterable[Any], around: list[Any]
    ) -> Any: ...
    def where(self, generator: Any) -> tuple[int, dict[str, Any], list[Any]] | None: ...


program: Rewriting | None = None


def find(cls: type) -> Kind | None:
    # Sent anew every time: that it has begun since cannot be seen from outside, nor undone.
    return Kind(reduce=reduce_generator, replaced=True) if cls is GeneratorType else None


def reduce_generator(generator: Any, pickler: Pickler) -> Reduced:
    if generator.gi_frame is None:
        return make_ended, ()
    if (recipe := unmade(generator)) is not None:
        return recipe
    if in_use(generator) or inner_of(generator) is not None:
        at = None if generator.gi_running else _standing(generator)
        if at is None or (pickler.back and _stays(at, pickler)):
            return pickler.refuse(generator, GENERATOR)
        return make_standing, as_parts(at)
    if (function := midway.function_of(generator)) is None:
        return pickler.refuse(generator, GENERATOR)
    return make_generator, (function, *_arguments(generator.gi_code, generator.gi_frame.f_locals))


def _arguments(code: CodeType, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    names = iter(code.co_varnames)
    positional = [values[next(names)] for _ in range(code.co_argcount)]
    by_name = {name: values[name] for name in (next(names) for _ in range(code.co_kwonlyargcount))}
    if code.co_flags & inspect.CO_VARARGS:
        positional += values[next(names)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_name |= values[next(names)]
    return positional, by_name


def _standing(generator: Any) -> AtYield | None:
    generator = inner_of(generator) or generator
    if program is None or (found := program.where(generator)) is None:
        return midway.standing(generator)
    line, values, its = found
    function = midway.function_of(generator, of_text=True)
    return None if function is None else midway.standing_in(function, line, values, its)


def _stays(at: AtYield, pickler: Pickler) -> bool:
    """Whether one of its loops goes over what cannot leave the worker: the notebook's own is better than a part."""
    trial = pickler.beside()
    trial.dump(at.its)
    return bool(trial.refusals)


def as_parts(at: AtYield) -> tuple[Any, ...]:
    return at.function, at.line, at.values, at.its


def make_generator(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Any:
    if program is None:
        return function(*positional, **by_name)
    return _named(_made_later(function, positional, by_name), function)


def make_standing(function: FunctionType, line: int, values: dict[str, Any], its: tuple[Any, ...]) -> Any:
    if program is None:
        return midway.go_on(AtYield(function, line, values, its))
    return _named(_brought_later(function, line, values, its), function)


def go_on(inner: Any) -> Any:
    """What stood around a generator that `make_generator` had made."""
    return _named(_around(inner), inner)


def unmade(generator: Any) -> Recipe | None:
    """How to make one that was made here and that nobody has asked for an item yet."""
    if in_use(generator):
        return None
    if (at := midway.not_asked(generator)) is not None:
        return make_standing, as_parts(at)
    make = _MAKERS.get(generator.gi_code)
    return None if make is None else (make, tuple(generator.gi_frame.f_locals.values()))


def inner_of(generator: Any) -> Any:
    """The generator that was made for this one, which passes everything on; None for all others."""
    if generator.gi_code is _around.__code__ and not in_use(generator):
        return generator.gi_frame.f_locals["inner"]
    return generator.gi_yieldfrom if generator.gi_code in _PASSING_ON else None


def _made_later(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Generator[Any, Any, Any]:
    made = function(*positional, **by_name)
    del function, positional, by_name  # what they hold may go as soon as the generator lets it go
    return (yield from made if program is None else program.remade(made))


def _brought_later(
    function: FunctionType, line: int, values: dict[str, Any], its: tuple[Any, ...]
) -> Generator[Any, Any, Any]:
    made = _brought(AtYield(function, line, values, its))
    del function, line, values, its
    return (yield from made)


def _brought(at: AtYield) -> Any:
    """By the program, so that it can be left where it then is; where it cannot, from the text alone."""
    if program is not None:
        positional, by_name = _arguments(at.function.__code__, defaultdict(tuple, at.values))
        made = program.remade(at.function(*positional, **by_name))
        made = program.brought(made, at.line, at.values, at.its, midway.enclosing(at.function, at.line))
        if made is not None:
            return made
    return midway.go_on(at)


def _around(inner: Any) -> Generator[Any, Any, Any]:
    return (yield from inner)


_MAKERS: dict[CodeType, Callable[..., Any]] = {
    _made_later.__code__: make_generator,
    _brought_later.__code__: make_standing,
}
_PASSING_ON = (_made_later.__code__, _brought_later.__code__, _around.__code__)


def _named(generator: Any, like: Any) -> Any:
    generator.__name__, generator.__qualname__ = like.__name__, like.__qualname__
    return generator


def make_ended() -> Iterator[Any]:
    made = iter(one for one in list[Any]())
    next(made, None)
    return made
