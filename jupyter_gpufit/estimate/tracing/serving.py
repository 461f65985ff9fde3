"""A process of the cell's that is given an end of a pipe answers there (an environment's does): it runs in a thread.

By turns, for all of them share this process's books: one runs, and the next only where that one waits for a pipe.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from copy import copy
from multiprocessing.connection import Connection
from typing import Any

from torch.utils._pytree import tree_any, tree_map

_PATIENCE = 1.0  # seconds for one that was told to end
_turn = threading.Lock()
_takes_turns = threading.local()


class Serving:
    """What a process object asks of its process."""

    sentinel = -1
    pid = os.getpid()

    def __init__(self, run: Callable[[], None]) -> None:
        self._run = run
        self._thread = threading.Thread(target=self._in_turn, daemon=True)
        if not serves_here():
            _take_turns()
        self._thread.start()

    def _in_turn(self) -> None:
        _take_turns()
        try:
            self._run()
        finally:
            _turn.release()

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self, *args: object) -> int | None:
        return None if self._thread.is_alive() else 0

    def wait(self, timeout: float | None = None) -> int | None:
        _by_turns(self._thread.join)(_PATIENCE if timeout is None else min(timeout, _PATIENCE))
        return self.poll()

    def close(self) -> None: ...

    terminate = kill = close


def serves(process: Any) -> bool:
    """Whether it is given an end of a pipe: with its function, or by a class with a `run` of its own."""
    return bool(tree_any(_is_end, vars(process)))


def with_own_ends(process: Any) -> Any:
    """What runs: each side closes the other's ends, and sets its own attributes, as after a fork."""
    own = lambda value: Connection(os.dup(value.fileno())) if _is_end(value) else value  # noqa: E731
    there = copy(process)
    vars(there).update(
        {name: tree_map(own, value) for name, value in vars(process).items() if tree_any(_is_end, value)}
    )
    return there


def serves_here() -> bool:
    """Whether this thread is a process of the cell's."""
    return hasattr(_takes_turns, "yes")


def begin() -> None:
    for name in ("_send", "_recv", "_poll"):
        setattr(Connection, name, _by_turns(getattr(Connection, name)))


def _is_end(value: object) -> bool:
    return type(value) is Connection and not value.closed


def _take_turns() -> None:
    _turn.acquire()
    _takes_turns.yes = True


def _by_turns(real: Callable[..., Any]) -> Callable[..., Any]:
    def waiting(*args: Any, **kwargs: Any) -> Any:
        if not serves_here():
            return real(*args, **kwargs)
        _turn.release()
        try:
            return real(*args, **kwargs)
        finally:
            _turn.acquire()

    return waiting
