"""Generators that have not begun, made again from their function and its arguments; and those that have ended.

One that is suspended in between has a position that only the interpreter knows.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import GENERATOR, in_use


def find(cls: type) -> Kind | None:
    # Sent anew every time: that it has begun since cannot be seen from outside, nor undone.
    return Kind(reduce=reduce_generator, replaced=True) if cls is GeneratorType else None


def reduce_generator(generator: Any, pickler: Pickler) -> Reduced:
    if generator.gi_frame is None:
        return make_ended, ()
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
    return function(*positional, **by_name)


def make_ended() -> Iterator[Any]:
    made = iter(one for one in list[Any]())
    next(made, None)
    return made
