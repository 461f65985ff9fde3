"""Properties: what a getter does can be left midway, where rewritten code asks for the attribute."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from .activation import Activation


@dataclass(frozen=True)
class Getter:
    """A property as it is saved while its getter runs: in place of the callee."""

    function: FunctionType
    owner: Any
    name: str  # under which the value is kept; empty if it is not

    def go_on(self, enter: Callable[..., Any], frame: Activation, k: int) -> Any:
        return self.got(lambda owner: enter(self.function, frame, k))

    def got(self, function: Callable[[Any], Any]) -> Any:
        """What it gives, as Python gives it: an AttributeError goes to `__getattr__`."""
        otherwise = getattr(type(self.owner), "__getattr__", None)
        try:
            value = function(self.owner)
        except AttributeError:
            if otherwise is None:
                raise
        else:
            return self._kept(value)
        return otherwise(self.owner, self.function.__name__)

    def _kept(self, value: Any) -> Any:
        if self.name:
            vars(self.owner)[self.name] = value
        return value


def getter_of(owner: Any, name: str) -> Getter | None:
    """None if the attribute can only be asked for as it is."""
    kind: Any = type(owner)
    if kind.__getattribute__ is not object.__getattribute__:
        return None
    found = next((vars(one)[name] for one in kind.__mro__ if name in vars(one)), None)
    if type(found) is property and type(found.fget) is FunctionType:
        return Getter(found.fget, owner, "")
    if type(found) is functools.cached_property and type(found.func) is FunctionType:
        own = getattr(owner, "__dict__", None)
        if type(own) is dict and name not in own and found.attrname == name:
            return Getter(found.func, owner, name)
    return None
