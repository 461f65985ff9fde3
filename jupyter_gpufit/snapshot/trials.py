"""Which values a snapshot can hold, of the thousands that modules have: tried one after another.

They lead to each other, and what one has led to need not be looked through for the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..graph.kind import Reduced, TookTooLong
from ..graph.modules import Homes
from ..graph.stream import Namespace
from .pickler import SnapshotPickler

_PLAIN = frozenset({bool, bytes, complex, float, int, str, type(None)})  # most of what a module holds


@contextmanager
def trials(program: Any, namespace: Namespace) -> Iterator[Callable[..., bool]]:
    """What says whether a snapshot can hold a value, with all that it leads to."""
    tried = _Trials(program, namespace)
    try:
        yield tried.can_be_saved
    finally:
        tried.begin_anew()
        tried.known.clear()


class _Refused(Exception):
    """One is enough."""


class _TrialPickler(SnapshotPickler):
    passed_on = (*SnapshotPickler.passed_on, _Refused)

    def refuse(self, obj: Any, why: str) -> Reduced:
        super().refuse(obj, why)
        raise _Refused

    def name_it(self, obj: Any, why: str) -> Reduced:
        super().name_it(obj, why)
        raise _Refused


class _Trials:
    def __init__(self, program: Any, namespace: Namespace) -> None:
        self._given = program, namespace
        self._pickler: SnapshotPickler | None = None
        self._homes = Homes()
        self.known: list[Any] = []  # values that can be saved

    def can_be_saved(self, value: Any, until: float | None = None) -> bool:
        """`until`: of time.monotonic(); then TookTooLong."""
        if type(value) in _PLAIN:
            return True
        if self._pickler is None:
            self._pickler = _TrialPickler(*self._given, lambda address: None)
            self._pickler.only_tries(self.known)
            self._pickler.homes = self._homes
        self._pickler.until = until
        try:
            self._pickler.dump(value)
        except TookTooLong:
            self.begin_anew()
            raise
        except Exception:
            self.begin_anew()  # also of what it knows now, there is some that leads to what cannot be saved
            return False
        if self._pickler.refusals:
            self.begin_anew()
            return False
        self._pickler.stream.seek(0)
        self._pickler.stream.truncate()
        self.known.append(value)
        return True

    def begin_anew(self) -> None:
        if self._pickler is not None:
            self._pickler.clear_memo()  # it is large, and in a circle: nothing is collected while a snapshot is taken
            self._pickler = None
