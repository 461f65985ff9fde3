"""The local variables of running code, read without a trace of the reading.

Before Python 3.13 a function's `f_locals` is a dictionary that stays with the frame: it would keep yesterday's batch
alive beside today's. So the variables are taken out of it again, unless somebody else has it: it is the very one that
the function's own `locals()` returned, and a debugger writes it back.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Container
from types import CodeType, FrameType
from typing import Any

LOOKS_ITSELF = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
OWN_REFERENCES = 3  # to a frame's dictionary: the frame's, ours, and that of the call which counts them


def values_of(frame: FrameType) -> dict[str, Any]:
    """All variables that have a value, with what else `f_locals` has; a cell's or module's are its globals."""
    there, code = frame.f_locals, frame.f_code
    values = dict(there)
    if type(there) is dict and code.co_flags & inspect.CO_OPTIMIZED and frame.f_trace is None:
        if sys.getrefcount(there) <= OWN_REFERENCES:
            for name in _names(code):
                there.pop(name, None)
    return values


def read(frame: FrameType, wanted: Container[str] | None = None) -> dict[str, Any]:
    """The variables of a frame, or those of them that are wanted; of a cell or module, those that its code names.

    None of code that asks for its locals itself: what it was given would change under its hands.
    """
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        names = [name for name in code.co_names if wanted is None or name in wanted]
        return {name: frame.f_globals[name] for name in names if name in frame.f_globals}
    names = [name for name in _names(code) if wanted is None or name in wanted]
    if sys.version_info >= (3, 13):
        there = frame.f_locals
        return {name: there[name] for name in names if name in there}
    if frame.f_trace is not None or not LOOKS_ITSELF.isdisjoint(code.co_names):
        return {}
    found = values_of(frame)
    return {name: found[name] for name in names if name in found}


def _names(code: CodeType) -> tuple[str, ...]:
    return *code.co_varnames, *code.co_cellvars, *code.co_freevars
