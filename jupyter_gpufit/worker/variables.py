"""The local variables of code that runs in another thread, read without a trace of the reading.

Before Python 3.13 a function's `f_locals` is a dictionary that stays with the frame: it would keep yesterday's batch
alive beside today's, and it is the very one that the function's own `locals()` returned. So it is emptied again, unless
somebody else has it, and it is not made where the code asks for its locals itself.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Container
from types import FrameType
from typing import Any

LOOKS_ITSELF = frozenset({"locals", "vars", "dir", "eval", "exec", "_getframe", "currentframe"})
OWN_REFERENCES = 3  # to a frame's dictionary: the frame's, ours, and that of the call which counts them


def read(frame: FrameType, wanted: Container[str] | None = None) -> dict[str, Any]:
    """The variables of a frame, or those of them that are wanted; of a cell or module, those that its code names."""
    code = frame.f_code
    if not code.co_flags & inspect.CO_OPTIMIZED:
        names = [name for name in code.co_names if wanted is None or name in wanted]
        return {name: frame.f_globals[name] for name in names if name in frame.f_globals}
    names = [
        name for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars) if wanted is None or name in wanted
    ]
    if sys.version_info >= (3, 13):
        there = frame.f_locals
        return {name: there[name] for name in names if name in there}
    if frame.f_trace is not None or not LOOKS_ITSELF.isdisjoint(code.co_names):
        return {}  # a debugger writes the dictionary back into the frame: what is missing there would be deleted
    found = frame.f_locals
    values = {name: found[name] for name in names if name in found}
    if sys.getrefcount(found) <= OWN_REFERENCES:
        found.clear()
    return values
