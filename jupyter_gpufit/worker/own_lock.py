"""A lock whose holder can ask whether it holds it: to wait for oneself would be for ever."""

from __future__ import annotations

import threading


class OwnLock:
    """Anything that allocates may collect garbage, and so run the user's code in the midst of what holds the lock.

    A generator that was left in a loop ends its `finally` there, and comes back to us.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder = 0

    @property
    def is_mine(self) -> bool:
        return self._holder == threading.get_ident()

    def acquire(self, *, blocking: bool = True) -> bool:
        assert not (blocking and self.is_mine), "it would wait for itself"
        if taken := self._lock.acquire(blocking=blocking):
            self._holder = threading.get_ident()
        return taken

    def release(self) -> None:
        self._holder = 0
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()
