"""What a trainer's class and the functions around its methods say of how to call them."""

from __future__ import annotations

import inspect
import sys
from types import MethodType

from .own_resume_libraries import Resuming


def base_of(resuming: Resuming) -> type:
    """The library's own Trainer."""
    found: type = sys.modules[resuming.module].Trainer
    return found


def signature_with(parameter: str, method: MethodType, base: type) -> inspect.Signature | None:
    """How to call a method so that it gets this parameter: by the library's own, if all is passed on to that."""
    own = inspect.signature(method)
    if parameter in own.parameters:
        return own
    if not any(one.kind is one.VAR_KEYWORD for one in own.parameters.values()):
        return None
    theirs = inspect.signature(getattr(base, method.__name__).__get__(method.__self__))
    return theirs if parameter in theirs.parameters else None


def wrapper_of(method: MethodType) -> str:
    """The package that has put a function of its own around this one; empty: none has."""
    function = method.__func__
    home = getattr(function, "__globals__", {}).get("__name__", "")
    return str(home).partition(".")[0] if hasattr(function, "__wrapped__") else ""
