"""Long chains of objects: pickling them recurses, one object in another.

Python's pickler in C needs a large stack for that, and from Python 3.12 on also a limit that nobody can set; in 3.14 it
is the stack's own again. In between the pickler in Python takes over, whose recursion needs no stack.
"""

from __future__ import annotations

import io
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")

_LIMITED = (3, 12) <= sys.version_info < (3, 14)
_LIMIT = 3_000_000 if _LIMITED else 600_000  # 100,000 linked objects; in Python there are more calls to each
_STACK = 512 << 20  # bytes
_in_python = ContextVar("in_python", default=False)
_OF_PICKLE = (  # types that the pickler in C writes without asking anybody
    (type(None), bool, int, float, str, bytes, bytearray, dict, set, frozenset, list, tuple, pickle.PickleBuffer)
)


def is_deep() -> bool:
    """Whether to write by the pickler in Python."""
    return _in_python.get()


def deeply(call: Callable[[], T]) -> T:
    """Run `call` where 100,000 linked objects fit: a thread's stack is of a fixed size."""
    done: Future[T] = Future()

    def run() -> None:
        _in_python.set(_LIMITED)
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    sys.setrecursionlimit(max(limit, _LIMIT))
    try:
        thread = threading.Thread(target=run, name="gpufit-deep")
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)
    return done.result()


class InPython(pickle._Pickler):
    """Goes on with another pickler's stream, and asks that one for everything but how to write."""

    def __init__(self, pickler: Any, stream: io.BytesIO, take_buffer: Callable[[pickle.PickleBuffer], bool]) -> None:
        super().__init__(stream, 5, buffer_callback=take_buffer)
        self._asked = pickler
        self.dispatch_table = pickler.dispatch_table
        if (persistent_id := getattr(pickler, "persistent_id", None)) is not None:
            vars(self)["persistent_id"] = persistent_id
        whole = pickle._Pickler.save_reduce  # type: ignore[attr-defined]

        def save_reduce(*args: Any, **options: Any) -> None:
            whole(self, *args, **options)

        vars(self)["save_reduce"] = save_reduce  # a method that is called with `*` would recurse in C

    def dump(self, obj: Any) -> None:
        self.memo = self._asked.memo.copy()
        try:
            super().dump(obj)
        finally:
            self._asked.memo = self.memo

    def reducer_override(self, obj: Any) -> Any:
        return NotImplemented if type(obj) in _OF_PICKLE else self._asked.reducer_override(obj)
