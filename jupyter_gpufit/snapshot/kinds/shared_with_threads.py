"""Queues, events and the like by which a thread of the cell's own and the training wait for each other.

No checkpoint holds the thread, and without it a training that goes on would wait for ever. So it is refused by name,
whether the thread just waits, by which its lock would show it, or is at work.
"""

from __future__ import annotations

import queue
import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...graph.code import names_used
from ...graph.kind import Kind, Reduced, kind_of
from ...graph.paths import where
from ...system.variables import values_of
from ..hazards import threads_of_the_user

if TYPE_CHECKING:
    from ..pickler import SnapshotPickler

_WAITED_FOR = (
    queue.Queue,
    queue.SimpleQueue,
    threading.Condition,
    threading.Event,
    threading.Semaphore,
    threading.Barrier,
)
_INSTEAD = "let a DataLoader (num_workers=1) fetch ahead, whose place is saved, or do in the loop what the thread does."


def find(cls: type) -> Kind | None:
    if not issubclass(cls, _WAITED_FOR) or not threads_of_the_user():
        return None
    kind = kind_of(cls, {})

    def reduce(obj: Any, pickler: SnapshotPickler) -> Reduced:
        for thread in threads_of_the_user():
            if where(_at_hand(thread), obj) is not None:
                why = f"a {cls.__name__} that the thread {thread.name!r} uses, which the cell started"
                return pickler.name_it(obj, f"{why}. No checkpoint can hold a thread: {_INSTEAD}")
        return kind.reduce(obj, pickler)

    return replace(kind, reduce=reduce)


def _at_hand(thread: threading.Thread) -> dict[str, Any]:
    """What the functions that it runs hold, and the globals that they use."""
    found: dict[str, Any] = {}
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        values = {name: frame.f_globals[name] for name in names_used(frame.f_code) if name in frame.f_globals}
        found |= {f"{name} {len(found)}": value for name, value in (values | values_of(frame)).items()}
        frame = frame.f_back
    return found
