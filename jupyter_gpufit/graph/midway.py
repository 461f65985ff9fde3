"""Generators of other processes: each is made when it is first asked for an item.

Where a program may be left midway a generator must be of code that was made for it, and that is there only when the
program runs. Where one in use is suspended in its text is not known in this room: who can read programs says it.
"""

from __future__ import annotations

import ctypes
import dis
import gc
import inspect
from collections.abc import Callable, Generator, Iterator
from types import CodeType, FunctionType, GeneratorType
from typing import Any, NamedTuple

from ..system.variables import values_of
from .code import names_used


class State(NamedTuple):
    """Of one in use."""

    whole: Any  # itself
    filename: str  # of its text
    names: tuple[str, ...]  # that it reads of the notebook
    closes: bool  # something is done where it is closed


def _unknown(generator: Any) -> None:
    return None


def _nobody(whole: Any) -> Any:
    raise RuntimeError("A generator in use has come to a process that reads no programs.")


# What one in use holds, as plain containers, its code as it was written, and whether it does something where it is
# closed; None: it cannot be made again.
taken: Callable[[Any], tuple[Any, CodeType, bool] | None] = _unknown
resumed: Callable[[Any], Any] = _nobody  # made again of what it held
remade: Callable[[Any], Any] | None = None  # in a worker: one that has not begun, of code that can be left midway


def in_use(generator: Any) -> bool:
    """Whether it is suspended somewhere between its beginning and its end."""
    return inspect.getgeneratorstate(generator) in (inspect.GEN_SUSPENDED, inspect.GEN_RUNNING)


def stays(generator: Any) -> bool:
    """Whether it can only be used where it is."""
    return in_use(generator) and expression(generator) is None and state_of(generator) is None


def sent(generator: Any) -> State | None:
    """What goes to where another one goes on in its place: this one must not do what is done where it is closed."""
    state = state_of(generator)
    if state is not None and state.closes:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(generator))  # never let go, at the interpreter's end neither
    return state


def state_of(generator: Any) -> State | None:
    if found := waiting(generator):
        return found
    if generator.gi_running or (known := taken(inner_of(generator) or generator)) is None:
        return None
    whole, code, closes = known
    return State(whole, code.co_filename, tuple(names_used(code)), closes)


# Not begun -----------------------------------------------------------------------------------------------------------


def make_generator(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Any:
    if remade is None:
        return function(*positional, **by_name)
    return _named(_made_later(function, positional, by_name), function.__name__, function.__qualname__)


def unmade(generator: Any) -> tuple[FunctionType, list[Any], dict[str, Any]] | None:
    """What `make_generator` was given, or would be for the same, if nobody has asked for an item yet."""
    if generator.gi_frame is None or in_use(generator):
        return None
    values = values_of(generator.gi_frame)
    if generator.gi_code is _made_later.__code__:
        return values["function"], values["positional"], values["by_name"]
    function = function_of(generator)
    return None if function is None else (function, *_arguments(generator.gi_code, values))


def _arguments(code: CodeType, values: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    names = iter(code.co_varnames)
    positional = [values[next(names)] for _ in range(code.co_argcount)]
    by_name = {name: values[name] for name in (next(names) for _ in range(code.co_kwonlyargcount))}
    if code.co_flags & inspect.CO_VARARGS:
        positional += values[next(names)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_name |= values[next(names)]
    return positional, by_name


def _made_later(function: FunctionType, positional: list[Any], by_name: dict[str, Any]) -> Generator[Any, Any, Any]:
    made = function(*positional, **by_name)
    del function, positional, by_name  # what they hold may go as soon as the generator lets it go
    return (yield from made if remade is None else remade(made))


def function_of(generator: Any) -> FunctionType | None:
    """Its frame holds it, and says so to the garbage collector only."""
    held = [one for one in gc.get_referents(generator) if type(one) is FunctionType]
    return next((one for one in held if one.__code__ is generator.gi_code), None)


# In use --------------------------------------------------------------------------------------------------------------


def make_parked(name: str, qualname: str) -> Any:
    made = _parked([])
    next(made)
    return _named(made, name, qualname)


def fill_parked(generator: Any, of: Any) -> None:
    """`of`: a state, or the generator around which it stands."""
    values_of(generator.gi_frame)["waits"].append(of)


def go_on(inner: Any) -> Any:
    """What stood around a generator that was made here."""
    made = make_parked(inner.__name__, inner.__qualname__)
    fill_parked(made, inner)
    return made


def waiting(generator: Any) -> State | None:
    """What `fill_parked` was given, if nobody has asked for an item yet and it is a state."""
    found = _waits(generator)
    return State(*found[0]) if found and type(found[0]) is tuple else None


def inner_of(generator: Any) -> Any:
    """The generator that was made for this one, which passes everything on; None for all others."""
    if generator.gi_code is _parked.__code__:
        if found := _waits(generator):
            return found[0] if type(found[0]) is GeneratorType else None
        return generator.gi_yieldfrom and generator.gi_yieldfrom.inner
    return generator.gi_yieldfrom if generator.gi_code is _made_later.__code__ else None


def expression(generator: Any) -> tuple[FunctionType, Any] | None:
    """A generator expression with one `for`: the function that makes it, and what it goes over.

    Between two items it holds nothing else, so one that is made anew over the same iterator goes on.
    """
    frame, code = generator.gi_frame, generator.gi_code
    if code.co_name != "<genexpr>" or frame is None or generator.gi_running:
        return None
    function = function_of(generator)
    values = values_of(frame)
    if function is None or ".0" not in values:
        return None
    if sum(one.opname == "FOR_ITER" for one in dis.get_instructions(code)) != 1:
        return None
    return function, values[".0"]


def make_expression(function: FunctionType, iterator: Any) -> Any:
    return function(iterator)


def _waits(generator: Any) -> list[Any]:
    if generator.gi_code is not _parked.__code__ or generator.gi_running or generator.gi_frame is None:
        return []
    found: list[Any] = values_of(generator.gi_frame)["waits"]
    return found


def _parked(waits: list[Any]) -> Generator[Any, Any, Any]:
    try:
        given, error = (yield), None
    except BaseException as raised:  # close() raises one, too: its own `finally` blocks are to run
        given, error = None, raised
    if not waits:
        return None  # what it was sent with could not be opened
    made = waits.pop()
    if type(made) is not GeneratorType:
        if type(error) is GeneratorExit and not State(*made).closes:
            return None
        made = resumed(made[0])
    going = _Going(made, given, error)
    del made, given, error
    return (yield from going)


class _Going:
    """Passes on what a generator in use was first asked, and then everything."""

    def __init__(self, inner: Any, given: Any, error: BaseException | None) -> None:
        self.inner, self._first = inner, (given, error)
        self.send, self.throw, self.close = inner.send, inner.throw, inner.close

    def __iter__(self) -> _Going:
        return self

    def __next__(self) -> Any:
        (given, error), self._first = self._first, (None, None)
        return self.inner.send(given) if error is None else self.inner.throw(error)


def _named(generator: Any, name: str, qualname: str) -> Any:
    generator.__name__, generator.__qualname__ = name, qualname
    return generator


def make_ended() -> Iterator[Any]:
    made = iter(one for one in list[Any]())
    next(made, None)
    return made
