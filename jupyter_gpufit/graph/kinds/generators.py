"""Generators that have not begun, made again from their function and its arguments; and those that have ended.

One that is suspended in between has a position that only the interpreter knows. Where a program may be left midway it
must be of code that was made for it, and that is there only when the program runs: what arrives in a worker is made
when it is first asked for an item (`batches = cycle(loader)` in an earlier cell).
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Generator, Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import GENERATOR, in_use

remade: Callable[[Any], Any] | None = None  # in a worker: the same generator, of code that can be left midway


def find(cls: type) -> Kind | None:
    # Sent anew every time: that it has begun since cannot be seen from outside, nor undone.
    return Kind(reduce=reduce_generator, replaced=True) if cls is GeneratorType else None


def reduce_generator(generator: Any, pickler: Pickler) -> Reduced:
    if generator.gi_frame is None:
        return make_ended, ()
    if (recipe := unmade(generator)) is not None:
        return make_generator, recipe
    function = None if in_use(generator) else _function_of(generator)
    if function is None:
        return pickler.refuse(generator, GENERATOR)
    return make_generator, (function, *_arguments(generator.gi_code, generator.gi_frame.f_locals))


def _function_of(generator: Any) -> FunctionType | None:
    """Its frame holds it, and says so to the garbage collector only."""
    held = [one for one in gc.get_referents(generator) if type(one) is FunctionType]
    return next((one for one in held if one.__code__ is generator.gi_code), None)


def _arguments(code: CodeType, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    names = iter(code.co_varnames)
    positional = [values[next(names)] for _ in range(code.co_argcount)]
    by_name = {name: values[name] for name in (next(names) for _ in range(code.co_kwonlyargcount))}
    if code.co_flags & inspect.CO_VARARGS:
        positional += values[next(names)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_name |= values[next(names)]
    return positional, by_name


def make_generator(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Any:
    if remade is None:
        return function(*positional, **by_name)
    return _named(_made_later(function, positional, by_name), function)


def go_on(inner: Any) -> Any:
    """What stood around a generator that `make_generator` had made."""
    return _named(_around(inner), inner)


def unmade(generator: Any) -> tuple[FunctionType, list[Any], dict[str, Any]] | None:
    """What `make_generator` was given, if nobody has asked for an item yet."""
    if generator.gi_code is not _made_later.__code__ or in_use(generator):
        return None
    values = generator.gi_frame.f_locals
    return values["function"], values["positional"], values["by_name"]


def inner_of(generator: Any) -> Any:
    """The generator that was made for this one, which passes everything on; None for all others."""
    if generator.gi_code is _around.__code__ and not in_use(generator):
        return generator.gi_frame.f_locals["inner"]
    return generator.gi_yieldfrom if generator.gi_code in (_made_later.__code__, _around.__code__) else None


def _made_later(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Generator[Any, Any, Any]:
    made = function(*positional, **by_name)
    del function, positional, by_name  # what they hold may go as soon as the generator lets it go
    return (yield from made if remade is None else remade(made))


def _around(inner: Any) -> Generator[Any, Any, Any]:
    return (yield from inner)


def _named(generator: Any, like: Any) -> Any:
    generator.__name__, generator.__qualname__ = like.__name__, like.__qualname__
    return generator


def make_ended() -> Iterator[Any]:
    made = iter(one for one in list[Any]())
    next(made, None)
    return made
