"""Rich's live displays and bars, as they stand: they are drawn by threads, with locks, which each process has anew."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

_PARTS = {"rich.console": ("Console",), "rich.live": ("Live",), "rich.progress": ("Progress", "Task", "_TrackThread")}
_ANEW = ("_refresh_thread", "ipy_widget", "_thread_locals", "done")  # done: of a thread, which sets it once it ends


def find(cls: type) -> Kind | None:
    for module, names in _PARTS.items():
        if module in sys.modules and issubclass(cls, tuple(getattr(sys.modules[module], name) for name in names)):
            return Kind(reduce=reduce_thread if issubclass(cls, threading.Thread) else reduce_part)
    return None


def reduce_part(part: Any, pickler: SnapshotPickler) -> Reduced:
    own = {name: value for name, value in vars(part).items() if name not in _ANEW and not _is_lock(value)}
    locks = [name for name, value in vars(part).items() if _is_lock(value)]
    refreshed = getattr(part, "_refresh_thread", None) is not None
    themes = part._thread_locals.theme_stack if hasattr(part, "_thread_locals") else None
    return make_instance, (type(part),), (pickler.restoring, own, locks, refreshed, themes), None, None, fill_part


def _is_lock(value: object) -> bool:
    return isinstance(value, (type(threading.Lock()), type(threading.RLock())))


def fill_part(part: Any, state: tuple[Any, dict[str, Any], list[str], bool, Any]) -> None:
    restoring, own, locks, refreshed, themes = state
    vars(part).update(own)
    for name in locks:
        setattr(part, name, threading.RLock())
    if themes is not None:
        part._thread_locals = sys.modules["rich.console"].ConsoleThreadLocals(theme_stack=themes)
    if "_refresh_thread" in vars(type(part)) or "refresh_per_second" in own:
        part._refresh_thread = part.ipy_widget = None
    if refreshed:
        restoring.last.append(lambda: _refresh(part))


def _refresh(live: Any) -> None:
    """Draw it, and go on drawing it."""
    live._refresh_thread = sys.modules["rich.live"]._RefreshThread(live, live.refresh_per_second)
    live._refresh_thread.start()


# The thread of `track`, which shows how far its loop is.
def reduce_thread(thread: Any, pickler: SnapshotPickler) -> Reduced:
    own = {name: getattr(thread, name) for name in ("progress", "task_id", "update_period", "completed")}
    return make_instance, (type(thread),), (pickler.restoring, own, thread.is_alive()), None, None, fill_thread


def fill_thread(thread: Any, state: tuple[Any, dict[str, Any], bool]) -> None:
    restoring, own, alive = state
    thread.__init__(own["progress"], own["task_id"], own["update_period"])
    thread.completed = own["completed"]
    if alive:
        restoring.last.append(thread.start)
