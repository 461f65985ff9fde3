"""Whether a thread, a process or a pool of them has come to its end, so that nothing of this process is behind it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from typing import Any

from ..system.objects import module_of

_OF_MODULES = {  # by the module that has them, if anybody has imported it: the classes, and what they are to us
    "multiprocessing.pool": (("Pool", "ThreadPool"), "pool"),
    "concurrent.futures.process": (("ProcessPoolExecutor",), "executor"),
    "multiprocessing.queues": (("Queue", "JoinableQueue"), "queue"),
}


def kind_of(cls: type) -> str:
    """thread, child, process, pool, executor, queue; empty: nothing that ends."""
    if issubclass(cls, threading.Thread):
        return "thread"
    if issubclass(cls, subprocess.Popen):
        return "child"
    if issubclass(cls, multiprocessing.process.BaseProcess):
        return "process"
    module = module_of(cls)
    names, kind = _OF_MODULES.get(module, ((), ""))
    return kind if cls.__name__ in names and getattr(sys.modules[module], cls.__name__) is cls else ""


def has_ended(obj: Any) -> bool:
    match kind_of(type(obj)):
        case "thread":
            return obj.ident is not None and not obj.is_alive()
        case "child":
            return obj.poll() is not None
        case "process":
            here = vars(obj).get("_parent_pid") == os.getpid()
            return bool(vars(obj).get("_closed")) or (here and obj.ident is not None and obj.exitcode is not None)
        case "pool":
            return obj._state != "RUN" and not any(one.is_alive() for one in (obj._worker_handler, *(obj._pool or ())))
        case "executor":
            leads = obj._executor_manager_thread
            return obj._shutdown_thread and (leads is None or not leads.is_alive())
        case "queue":  # what is in it is for processes that share it
            used = obj._closed or obj._buffer or multiprocessing.active_children()  # a closed one cannot be asked more
            return not used and obj.empty()
    return False
