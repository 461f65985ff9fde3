"""What a thread of the kernel goes on using while a copy of it travels: a queue that a thread fills, an event it sets.

The thread stays, so that the copy in the worker is filled by nobody. Only what is built on a lock is looked for, for
that is what a cell waits at; a thread that only reads the model, to plot it, hurts nobody.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dis import get_instructions
from types import FrameType
from typing import Any

from ...system.variables import values_of
from ..kinds.instances import attributes
from ..refusals import LOCKS

_OF_NAMES = ("LOAD_GLOBAL", "LOAD_NAME")


def shared_with_threads(shipped: Iterable[Any], called: Callable[[Any], str]) -> list[str]:
    """Remarks on each shipped thing that a living thread uses; `called`: what the user calls it."""
    try:
        return list(_remarks(list(shipped), called))
    except Exception:  # the threads go on meanwhile, and a remark is worth no cell
        return []


def _remarks(shipped: list[Any], called: Callable[[Any], str]) -> list[str]:
    if not any(type(one) in LOCKS for one in shipped):
        return []
    awaited = {id(one): one for one in shipped if _has_a_lock(one) and not _is_set(one)}
    frames = sys._current_frames()
    return [
        f"{called(awaited[found])} is shared with the thread {thread.name!r}, which stays in the notebook: what it does"
        " there does not reach the cell, and a cell that waits for it waits for ever. Start it in the cell."
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and thread is not threading.current_thread()
        for found in dict.fromkeys(id(one) for one in _used(frames.get(thread.ident or 0)))
        if found in awaited
    ]


def _has_a_lock(obj: Any) -> bool:
    if isinstance(obj, threading.Condition | type):
        return False  # the first is a part of what is looked for
    return any(isinstance(part, (*LOCKS, threading.Condition)) for part in (attributes(obj)[0] or {}).values())


def _is_set(obj: Any) -> bool:
    """An event that nobody need wait for."""
    return issubclass(type(obj), threading.Event) and obj._flag


def _used(frame: FrameType | None) -> Iterator[Any]:
    """What the calls in which a thread stands hold, and what they name of their module or notebook."""
    while frame is not None:
        yield from values_of(frame).values()
        used = {one.argval for one in get_instructions(frame.f_code) if one.opname in _OF_NAMES}
        yield from (frame.f_globals.get(name) for name in used)
        frame = frame.f_back
