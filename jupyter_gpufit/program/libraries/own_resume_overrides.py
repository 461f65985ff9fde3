"""Classes that put loops of their own in the place of a trainer's: a package's, with texts that nobody knows.

Those that the notebook defines are no matter: the notebook's own functions can be left in their midst.

Not covered: a loop object that is put into a trainer (`trainer.fit_loop = mine`).
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType, MethodType
from typing import Any

from .own_resume_libraries import ENTRIES, Resuming, resuming_of
from .versions import FUNCTIONS


def overridden(method: MethodType, known: Callable[[CodeType], Any] = lambda code: None) -> list[str]:
    """The methods with a trainer's loops that the class of this one has anew; but for those whose code is `known`."""
    if method.__name__ not in ENTRIES or (resuming := resuming_of(method.__self__)) is None:
        return []
    own, theirs = type(method.__self__), base_of(resuming)
    names = [
        name.removeprefix("Trainer.") for name in FUNCTIONS.get(resuming.module, ()) if name.startswith("Trainer.")
    ]
    codes = {name: (_code(own, name), _code(theirs, name)) for name in names}
    return [name for name, (mine, its) in codes.items() if mine is not None and mine is not its and not known(mine)]


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


def _code(cls: type, name: str) -> CodeType | None:
    found = getattr(cls, name, None)
    return getattr(inspect.unwrap(found), "__code__", None) if callable(found) else None
