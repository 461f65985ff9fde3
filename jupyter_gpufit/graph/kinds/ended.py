"""Threads, processes and their pools that have come to their end: nothing of them lives any more, and they say so.

A cell leaves them in its variables (`with Pool(4) as pool:`, `for t in threads: t.join()`), where nobody wants more of
them than that. A queue between processes is one more, when it is empty and no process is there to share it.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from ..endings import has_ended, kind_of
from ..kind import Kind, Pickler, Reduced
from ..refusals import why_not


class EndedChild:
    """In the place of what a process of multiprocessing is waited for by."""

    def __init__(self, pid: int, code: int) -> None:
        self.pid, self.returncode = pid, code

    def poll(self, flag: int = 0) -> int:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        return self.returncode

    def close(self) -> None:
        """There is nothing any more."""

    kill = terminate = close


def find(cls: type) -> Kind | None:
    kind = kind_of(cls)
    if not kind:
        return None

    def reduce(obj: Any, pickler: Pickler) -> Reduced:
        return _WAYS[kind](obj) if has_ended(obj) else pickler.refuse(obj, why_not(cls) or "")

    return Kind(reduce=reduce)


def _thread(thread: threading.Thread) -> Reduced:
    own = set(vars(threading.Thread(name="any")))  # without one it would take the number of the next
    state = {name: value for name, value in vars(thread).items() if name not in own}
    return make_thread, (type(thread), thread.name, thread.daemon), state, None, None, fill


def make_thread(cls: type[threading.Thread], name: str, daemon: bool) -> threading.Thread:
    made = object.__new__(cls)
    threading.Thread.__init__(made, name=name, daemon=daemon)
    made.run = _nothing  # type: ignore[method-assign]
    made.start()
    made.join()
    del made.run
    return made


def _nothing() -> None:
    pass


def _child(child: subprocess.Popen[Any]) -> Reduced:
    return make, (type(child),), dict(vars(child)), None, None, fill


def _process(process: Any) -> Reduced:
    handles = {"_popen", "_config", "_parent_pid", "_target", "_args", "_kwargs"}
    state = {name: value for name, value in vars(process).items() if name not in handles}
    code = None if process._closed else process.exitcode
    return make_process, (type(process), getattr(process._popen, "pid", 0), code), state, None, None, fill


def make_process(cls: type, pid: int, code: int | None) -> Any:
    """`code`: None when it was closed, and says nothing any more."""
    made: Any = object.__new__(cls)
    popen = None if code is None else EndedChild(pid, code)
    vars(made).update(_parent_pid=os.getpid(), _popen=popen, _config={}, _target=None, _args=(), _kwargs={})
    return made


def make(cls: type) -> Any:
    return object.__new__(cls)


def fill(obj: Any, state: dict[str, Any]) -> None:
    vars(obj).update(state)


def _pool(pool: Any) -> Reduced:
    return make_pool, (type(pool), pool._processes, pool._state)


def make_pool(cls: type, processes: int, state: str) -> Any:
    made: Any = object.__new__(cls)
    ended = make_thread(threading.Thread, "ended", True)
    handlers = dict.fromkeys(("_worker_handler", "_task_handler", "_result_handler"), ended)
    vars(made).update(handlers, _state=state, _processes=processes, _pool=[], _terminate=_nothing)
    return made


def _executor(pool: Any) -> Reduced:
    return make_executor, (pool._max_workers,)


def make_executor(most: int) -> Any:
    from concurrent.futures import ProcessPoolExecutor

    made = ProcessPoolExecutor(most)  # it starts none before there is work
    made.shutdown()
    return made


def _queue(queue: Any) -> Reduced:
    return make_queue, (type(queue).__name__, queue._maxsize)


def make_queue(kind: str, most: int) -> Any:
    return getattr(multiprocessing.get_context(), kind)(most)


_WAYS: dict[str, Callable[[Any], Reduced]] = {
    "thread": _thread,
    "child": _child,
    "process": _process,
    "pool": _pool,
    "executor": _executor,
    "queue": _queue,
}
