"""Bars of tqdm.notebook that a training cell made, in the notebook's later cells: they go on where they stand.

In a worker such a bar is a display of HTML, and has no widget. Here it is of tqdm's own class, whose methods ask for
theirs: `close()`, which also comes by itself when the cell runs again, ended in an AttributeError.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from IPython.display import update_display

from ..jobs.bars import BAD, GOES_ON, GOOD, html_bar

NAME = "tqdm.notebook"
_COLOURS = {"danger": BAD, "success": GOOD}


class _Part(SimpleNamespace):
    """What a bar sets of a widget's part; `on_set` is called for what is to be drawn."""

    def __init__(self, on_set: Callable[[], None] | None = None) -> None:
        super().__init__(value="", bar_style="", bar_color=None)
        vars(self)["on_set"] = on_set

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if self.on_set is not None and name in ("value", "bar_style"):
            self.on_set()


class _Drawn:
    """In the place of a bar's widget; what the bar sets last is drawn."""

    def __init__(self, bar: Any) -> None:
        self._bar = bar
        self._left, self._middle, self._right = _Part(), _Part(self._style), _Part(self._draw)
        self._middle.style = self.layout = _Part()
        self.children = self._left, self._middle, self._right

    def close(self) -> None:
        self._update("", "")

    def _style(self) -> None:
        if self._middle.bar_style:
            self._draw()

    def _draw(self) -> None:
        bar = self._bar
        full = f'value="{bar.n}" max="{bar.total}"' if bar.total else ""
        accent = _COLOURS.get(self._middle.bar_style, GOES_ON)
        texts = [str(part.value).replace("\u2007", " ") for part in (self._left, self._right)]
        self._update(str(bar.format_meter(**bar.format_dict)), html_bar(*texts, full=full, accent=accent))

    def _update(self, text: str, html: str) -> None:
        if name := vars(self._bar).get("gpufit_display"):
            update_display({"text/plain": text, "text/html": html}, display_id=name, raw=True)


class _OfWorkersBars:
    """An attribute of tqdm's class that only those have which lack their own."""

    def __get__(self, bar: Any, owner: type) -> Any:
        if bar is None or "gpufit_shows" not in vars(bar):
            raise AttributeError("container")
        return _Drawn(bar)


def let_go_on() -> None:
    """Give tqdm's class, where it is loaded, what bars of training cells lack; its own have theirs and see nothing."""
    cls = getattr(sys.modules.get(NAME), "tqdm_notebook", None)
    if cls is not None and "container" not in vars(cls):
        cls.container, cls.displayed = _OfWorkersBars(), True
        cls.disp = lambda bar, *args, **kwargs: bar.display(*args, **kwargs)
