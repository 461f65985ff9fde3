"""Rich's consoles and bars: what they hold, without their locks and threads, which each process has of its own."""

from __future__ import annotations

import sys
import threading
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE
from .instances import make_instance

_PARTS = {"rich.console": ("Console",), "rich.live": ("Live",), "rich.progress": ("Progress", "Task")}
_OWN = ("_refresh_thread", "ipy_widget", "_thread_locals")
State = tuple[dict[str, Any], list[str], Any]
_LOCKS = type(threading.Lock()), type(threading.RLock())


def find(cls: type) -> Kind | None:
    for module, names in _PARTS.items():
        if module in sys.modules and issubclass(cls, tuple(getattr(sys.modules[module], name) for name in names)):
            return Kind(reduce=reduce_part, state=part_state, fill=fill_part)
    return None


def reduce_part(part: Any, pickler: Pickler) -> Reduced:
    if getattr(part, "_refresh_thread", None) is not None:
        return pickler.refuse(part, f"a display that a thread of this process draws. {INSIDE}.")
    return make_instance, (type(part),), part_state(part), None, None, fill_part


def part_state(part: Any) -> State:
    """Its attributes, the names of its locks, and a console's styles."""
    own = {name: value for name, value in vars(part).items() if name not in _OWN and not isinstance(value, _LOCKS)}
    locks = [name for name, value in vars(part).items() if isinstance(value, _LOCKS)]
    return own, locks, part._thread_locals.theme_stack if hasattr(part, "_thread_locals") else None


def fill_part(part: Any, state: State) -> None:
    own, locks, themes = state
    vars(part).update(own)
    for name in locks:
        vars(part).setdefault(name, threading.RLock())
    if themes is not None and not hasattr(part, "_thread_locals"):
        part._thread_locals = sys.modules["rich.console"].ConsoleThreadLocals(theme_stack=themes)
    if "refresh_per_second" in own:
        part._refresh_thread = part.ipy_widget = None
