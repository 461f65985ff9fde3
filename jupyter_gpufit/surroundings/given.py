"""What a cell gives to the shell and to no name: the value of its last expression, or the error that ended it.

worker:  with travelling(namespace, {out(5): 42}): reply        kernel:  arrived(namespace)
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ..graph.unavailable import Unavailable
from . import frames

ERROR = "sys.last_value"
TRACE = "sys.last_traceback"
UNASKED = frozenset({TRACE})  # nobody misses what of it cannot travel
_OUT = re.compile(r"Out\[\d+\]")
_KEPT = re.compile(r"_{1,3}|_\d+")
# A loop, a coroutine or a generator in which one of these is raised takes it for a word to itself.
_SPEAK_TO_THEIR_CALLER = (StopIteration, StopAsyncIteration, asyncio.CancelledError)


@dataclass(frozen=True)
class LeftToShell:
    """What came of them."""

    values: tuple[Any, ...] = ()  # of the last expression: one or none
    error: Exception | None = None


def out(number: int) -> str:
    """What stands for it among the variables, and in sentences."""
    return f"Out[{number}]"


def error(left: BaseException | None, known: Container[int]) -> dict[str, Any]:
    """An error that the notebook can raise in its own process, and where it was raised; `known`: see `frames`."""
    if not isinstance(left, Exception) or isinstance(left, _SPEAK_TO_THEIR_CALLER):
        return {}
    found: dict[str, Any] = {ERROR: left}
    with suppress(Exception):  # no result is lost for a debugger's sake
        found[TRACE] = frames.given(left, known)
    return found


def of_shell(namespace: dict[str, Any]) -> Callable[[str], bool]:
    """Whether a name is one under which the shell keeps what earlier cells gave: _, __, _5."""
    return lambda name: bool(_KEPT.fullmatch(name)) and name in namespace


@contextmanager
def travelling(namespace: dict[str, Any], found: dict[str, Any]) -> Iterator[None]:
    """Let them stand among the variables while those are packed."""
    namespace.update(found)
    try:
        yield
    finally:
        for name in found:
            namespace.pop(name, None)


def arrived(namespace: dict[str, Any]) -> LeftToShell:
    """Take what came with variables out of the namespace."""
    found, trace = namespace.pop(ERROR, None), namespace.pop(TRACE, None)
    if isinstance(found, Exception) and isinstance(trace, tuple):
        with suppress(Exception):
            frames.taken_up(found, trace)
    values = [namespace.pop(name) for name in [*filter(_OUT.fullmatch, namespace)]]
    kept = tuple(one for one in values if not isinstance(one, Unavailable))
    return LeftToShell(kept, found if isinstance(found, Exception) else None)
