"""Classes that are called: what `__init__` does can be left midway, and the object that it fills goes along.

Only where calling the class is no more than making an object and having `__init__` fill it: `__new__` and the
metaclass's `__call__` are Python's own.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from .activation import Activation


def init_of(callee: type) -> FunctionType | None:
    """None if it can only be called as it is."""
    init: Any = callee.__init__  # type: ignore[misc]
    makes, is_called = getattr(callee, "__new__", None), type(callee).__call__
    return init if type(init) is FunctionType and makes is object.__new__ and is_called is type.__call__ else None


def made_by(cls: Any, variant: FunctionType, frame: Activation, k: int) -> Callable[..., Any]:
    def make(*args: Any, **named: Any) -> Any:
        made = object.__new__(cls)
        frame.its[k] = (made,)
        try:
            return _filled(made, variant(made, *args, **named))
        finally:
            frame.its.pop(k, None)

    return make


def go_on(cls: type, frame: Activation, k: int, enter: Callable[..., Any]) -> Any:
    """Have the one that was begun filled to its end."""
    (made,) = frame.its[k]
    try:
        return _filled(made, enter(init_of(cls), frame, k))
    finally:
        frame.its.pop(k, None)


def _filled(made: Any, returned: Any) -> Any:
    if returned is not None:
        raise TypeError(f"__init__() should return None, not '{type(returned).__name__}'")
    return made
