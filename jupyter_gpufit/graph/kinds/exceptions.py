"""Exceptions that are kept: with their attributes, what Python itself notes in them, and the errors that led to them.

One is made without its __init__, which need not accept the arguments that it keeps. Not covered: its traceback, whose
frames belong to the process in which it was raised.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import reduce_generic, set_state
from .instances import attributes, set_attributes

Noted = tuple[tuple[str, Any], ...]
_MADE_WITH_ALL = (BaseException, BaseExceptionGroup)  # what these keep comes of their arguments, or is seen to below


def find(cls: type) -> Kind | None:
    if not issubclass(cls, BaseException):
        return None
    return ERROR if _is_pythons(cls.__reduce__) else OWN_WAY


def _is_pythons(reduce: Any) -> bool:
    return getattr(getattr(reduce, "__objclass__", None), "__module__", "") == "builtins"


def reduce_error(error: BaseException, pickler: Pickler) -> Reduced:
    return make_error, (type(error), error.args), error_state(error), None, None, fill_error


def make_error(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    return cls.__new__(cls, *args)


def error_state(error: BaseException) -> tuple[Any, ...]:
    return attributes(error), _noted(error), _led_to(error)


def fill_error(error: BaseException, state: tuple[Any, ...]) -> None:
    own, noted, led_to = state
    set_attributes(error, own)
    for name, value in noted:
        if getattr(error, name) is not value:  # an OSError shows a file name that is not there in another way than None
            setattr(error, name, value)
    _lead_to(error, led_to)


def _noted(error: BaseException) -> Noted:
    """What Python's own classes keep beside the arguments: a StopIteration's value, the name that was not found."""
    return tuple((name, getattr(error, name)) for name in _names_noted(type(error)))


def _names_noted(cls: type) -> tuple[str, ...]:
    bases = [base for base in cls.__mro__ if base.__module__ == "builtins" and base not in _MADE_WITH_ALL]
    return tuple(name for base in bases for name, one in vars(base).items() if type(one) is MemberDescriptorType)


def _led_to(error: BaseException) -> tuple[Any, ...]:
    return error.__cause__, error.__context__, error.__suppress_context__


def _lead_to(error: BaseException, led_to: tuple[Any, ...]) -> None:
    cause, context, suppressed = led_to
    # What could not be sent has left something in its place that is no error.
    error.__cause__ = cause if isinstance(cause, BaseException) else None
    error.__context__ = context if isinstance(context, BaseException) else None
    error.__suppress_context__ = suppressed  # setting the cause has set it


# A class that says how its errors are made.
def reduce_own_way(error: BaseException, pickler: Pickler) -> Reduced:
    found = reduce_generic(error, pickler)
    if isinstance(found, str) or len(found) > 3:
        return found
    call, args, *state = found
    return call, args, (state[0] if state else None, _led_to(error)), None, None, fill_own_way


def own_way_state(error: BaseException) -> tuple[Any, ...]:
    found = error.__reduce_ex__(5)
    return (found[2] if len(found) > 2 else None), _led_to(error)


def fill_own_way(error: BaseException, state: tuple[Any, ...]) -> None:
    own, led_to = state
    if own is not None:
        set_state(error, own)
    _lead_to(error, led_to)


ERROR = Kind(reduce=reduce_error, state=error_state, fill=fill_error)
OWN_WAY = Kind(reduce=reduce_own_way, state=own_way_state, fill=fill_own_way)
