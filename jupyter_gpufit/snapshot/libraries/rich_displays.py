"""Rich's live displays and bars, as they stand: the threads that draw them are each process's own, and begin anew."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from ...graph.kind import Kind, Reduced
from ...graph.kinds.instances import make_instance
from ...graph.kinds.rich_consoles import State, fill_part, part_state

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler


def find(cls: type) -> Kind | None:
    lives, bars = (sys.modules.get(name) for name in ("rich.live", "rich.progress"))
    if lives is not None and issubclass(cls, lives.Live):
        return Kind(reduce=reduce_live)
    if bars is not None and issubclass(cls, bars._TrackThread):
        return Kind(reduce=reduce_thread)
    return None


def reduce_live(live: Any, pickler: SnapshotPickler) -> Reduced:
    refreshed = live._refresh_thread is not None
    return make_instance, (type(live),), (pickler.restoring, part_state(live), refreshed), None, None, fill_live


def fill_live(live: Any, state: tuple[Any, State, bool]) -> None:
    restoring, own, refreshed = state
    fill_part(live, own)
    if refreshed:
        restoring.last.append(lambda: _refresh(live))


def _refresh(live: Any) -> None:
    """Draw it, and go on drawing it."""
    live._refresh_thread = sys.modules["rich.live"]._RefreshThread(live, live.refresh_per_second)
    live._refresh_thread.start()


# The thread of `track`, which shows how far its loop is.
def reduce_thread(thread: Any, pickler: SnapshotPickler) -> Reduced:
    own = {name: getattr(thread, name) for name in ("progress", "task_id", "update_period", "completed")}
    return make_instance, (type(thread),), (pickler.restoring, own, thread.is_alive()), None, None, fill_thread


def fill_thread(thread: threading.Thread, state: tuple[Any, dict[str, Any], bool]) -> None:
    restoring, own, alive = state
    type(thread).__init__(thread, own["progress"], own["task_id"], own["update_period"])
    vars(thread)["completed"] = own["completed"]
    if alive:
        restoring.last.append(thread.start)
