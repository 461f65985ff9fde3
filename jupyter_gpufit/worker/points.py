"""Who is called at a program's next safe point: what saves it, and what copies a GPU's numbers for the curves."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from types import CodeType
from typing import IO, Protocol

from .main_thread import MainThread
from .own_lock import OwnLock


class Stops(Protocol):
    """A program that can be stopped at its safe points: program's."""

    pending: bool
    at_safe_point: Callable[[], None]


class Points:
    """Two may wait for a safe point at once, and neither is called for the other's sake."""

    def __init__(self, program: Stops, main: MainThread, log: Callable[[], IO[str]]) -> None:
        self._program, self._main, self._log = program, main, log
        self._saves = self._copies = False
        self.passed = True  # a safe point in the main thread, since it was asked
        self._guard = threading.Lock()  # else what another thread wants between our look and our word would be lost
        self._copy: Callable[[], None] = lambda: None
        self._hears: Callable[[], None] | None = None
        self._hearing = False
        self.save: Callable[[], None] = lambda: None
        # Held while the program is read at a safe point. Before Python 3.13 a frame's variables stand in one dictionary
        # for all who read them, and variables.py empties it: another look must not come between.
        self.reading = OwnLock()
        self.seen: dict[str, CodeType] = {}  # whose variable, or log, each number was when it was last looked at
        program.at_safe_point = self._at_safe_point

    def want_save(self, wanted: bool) -> None:
        """Have `save` called at the next safe point, or not."""
        self._saves = wanted
        self._arm()

    def want_copy(self, copy: Callable[[], None]) -> None:
        """Have this called there, once."""
        self._copy, self._copies = copy, True
        self._arm()

    def want_heard(self, hear: Callable[[], None]) -> None:
        """Have this called there, once, as the cell's own code, which it comes to."""
        self._hears = hear
        self._arm()

    def want_passed(self) -> None:
        """Note whether there is a safe point from now on."""
        self.passed = False
        self._arm()

    def _arm(self) -> None:
        with self._guard:
            self._program.pending = bool(self._saves or self._copies or self._hears or not self.passed)

    def _at_safe_point(self) -> None:
        if self._hearing or self.reading.is_mine:
            return  # a loop of what was called, or of garbage: nobody could enter the cell again in the middle of that
        if self._main.is_here() and (hear := self._hears) is not None:
            self._hears, self._hearing = None, True
            try:
                hear()
            finally:
                self._hearing = False
        self.passed = self.passed or self._main.is_here()
        with self.reading:
            if self._copies:
                self._copies = False
                with self._main.ours():
                    self._do_copy()
            if self._saves:
                self.save()  # which may not return
        self._arm()

    def _do_copy(self) -> None:
        try:
            self._copy()
        except Exception:  # it was for a curve: no reason to end a training
            traceback.print_exc(file=self._log())
