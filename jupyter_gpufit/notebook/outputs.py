"""The outputs in an ipywidgets Output, which is told all of them each time, and draws all of them.

So what is written goes on in the output that is there, with carriage returns done: a bar stays one line. And it is told
no oftener than a page can draw it: a change that comes too soon goes with the next, or a little later by itself.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from .written import written

EVERY = 0.1  # seconds between two that are told
PER_SECOND = 200_000  # characters: longer ones come less often


class Outputs:
    """From whichever thread."""

    def __init__(self, widget: Any) -> None:
        self._widget = widget
        self._guard = threading.RLock()
        self._all: list[dict[str, Any]] = []
        self._places: dict[str, int] = {}  # of displays that may change
        self._next = 0.0  # time.monotonic() from which on they may be told
        self._later: threading.Timer | None = None

    def all(self) -> tuple[dict[str, Any], ...]:
        with self._guard:
            return tuple(self._all)

    def write(self, name: str, text: str) -> None:
        with self._guard:
            last = self._all[-1] if self._all else {}
            if last.get("name") == name:
                self._all[-1] = {**last, "text": written(last["text"], text)}
            else:
                self._all.append({"output_type": "stream", "name": name, "text": written("", text)})
            self._changed()

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], name: str | None = None) -> None:
        """In the place of the display of that name, if there is one."""
        shown = {"output_type": "display_data", "data": data, "metadata": metadata}
        with self._guard:
            if (at := self._places.get(name or "")) is not None:
                self._all[at] = shown
            else:
                if name:
                    self._places[name] = len(self._all)
                self._all.append(shown)
            self._changed()

    def clear(self, keep: str) -> None:
        """All but the display of that name."""
        with self._guard:
            self._all = [self._all[at] for name, at in self._places.items() if name == keep]
            self._places = {keep: 0} if self._all else {}
            self._changed()

    def tell(self) -> None:
        """At once."""
        with self._guard:
            later, self._later = self._later, None
            if later is not None:
                later.cancel()
            self._widget.outputs = tuple(self._all)
            self._next = time.monotonic() + max(EVERY, sum(map(_size, self._all)) / PER_SECOND)

    def _changed(self) -> None:
        now = time.monotonic()
        if now >= self._next:
            self.tell()
        elif self._later is None:
            run = contextvars.copy_context().run  # a kernel finds there which cell it belongs to
            self._later = threading.Timer(self._next - now, run, (self._tell_later,))
            self._later.daemon = True
            self._later.start()

    def _tell_later(self) -> None:
        with suppress(Exception):  # the thread's outermost frame: the next change tells it
            self.tell()


def _size(output: Mapping[str, Any]) -> int:
    """About what a page has to draw."""
    shown = [output["text"]] if "text" in output else output["data"].values()
    return sum(len(one) for one in shown if isinstance(one, str))
