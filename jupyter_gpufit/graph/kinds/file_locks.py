"""Locks of files (`filelock`): one that nobody holds is its file's path, and how it is asked for."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..refusals import INSIDE

_HOW = ("timeout", "is_singleton", "blocking", "poll_interval", "lifetime")  # of which a version knows some


def find(cls: type) -> Kind | None:
    library = sys.modules.get("filelock")
    return Kind(reduce=reduce_lock) if library is not None and issubclass(cls, library.BaseFileLock) else None


def reduce_lock(lock: Any, pickler: Pickler) -> Reduced:
    if lock.is_locked:
        return pickler.refuse(lock, f"a lock that is held, of the file {lock.lock_file}. {INSIDE}.")
    how = {name: getattr(lock, name) for name in _HOW if hasattr(lock, name)}
    return make_lock, (type(lock), os.path.abspath(lock.lock_file), how)


def make_lock(cls: Any, path: str, how: dict[str, Any]) -> Any:
    return cls(path, **how)
