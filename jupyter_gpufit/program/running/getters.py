"""Properties: what a getter does can be left midway, where rewritten code asks for the attribute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from ...errors import CannotArrive
from .activation import Activation


@dataclass(frozen=True)
class Getter:
    """An attribute as it is saved while its property's getter runs: in place of the callee."""

    owner: Any
    name: str

    def go_on(self, enter: Callable[..., Any], frame: Activation, k: int) -> Any:
        function = function_of(self.owner, self.name)
        if function is None:
            why = f"{type(self.owner).__name__}.{self.name} is not what it was when the checkpoint was taken."
            raise CannotArrive("", f"{why} Put back the version that was there, or run the cell again.")
        return self.got(lambda owner: enter(function, frame, k))

    def got(self, function: Callable[[Any], Any]) -> Any:
        """What it gives, as Python gives it: an AttributeError goes to `__getattr__`."""
        kind: Any = type(self.owner)
        otherwise = getattr(kind, "__getattr__", None)
        try:
            value = function(self.owner)
        except AttributeError:
            if otherwise is None:
                raise
        else:
            if type(_found(kind, self.name)) is functools.cached_property:
                vars(self.owner)[self.name] = value
            return value
        return otherwise(self.owner, self.name)


def function_of(owner: Any, name: str) -> FunctionType | None:
    """The getter; None if the attribute can only be asked for as it is."""
    kind: Any = type(owner)
    if kind.__getattribute__ is not object.__getattribute__:
        return None
    found = _found(kind, name)
    function = found.fget if type(found) is property else None
    if type(found) is functools.cached_property and found.attrname == name:
        own = getattr(owner, "__dict__", None)
        function = found.func if type(own) is dict and name not in own else None
    return function if type(function) is FunctionType else None


def _found(kind: type, name: str) -> Any:
    return next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)
