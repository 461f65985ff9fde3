"""What an `ipywidgets.Output` is in a worker: a display that changes.

The real one asks the browser to take what is shown inside of it, for which it would need the kernel: here, all of it
would go to the cell, and its `clear_output` would clear the cell. Rich draws its live displays into one.

What is shown, printed or cleared inside of `with output:` is that output's, in the thread that does it. It is drawn
where the output was displayed, at most four times a second: each drawing is kept in the job's journal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from html import escape
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

from ..jobs.events import Display, Event

NAME = "ipywidgets.widgets.widget_output"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
OFTEN = 0.25  # seconds between two drawings
MOST = 200  # pieces that are kept: the last ones

Emit = Callable[[Event], None]
_inside = threading.local()  # .outputs: those that this thread is inside of, the innermost last
_drawings: dict[str, Drawing] = {}  # by the widget's model


class Drawing:
    """What one output holds."""

    def __init__(self, emit: Emit, model: str) -> None:
        self.emit, self.id = emit, f"gpufit-output-{model}"
        self.pieces: list[tuple[str, str]] = []  # as HTML and as text
        self.shown = self.to_wipe = False
        self.due: threading.Timer | None = None
        self.last = 0.0
        self.lock = threading.RLock()

    def add(self, html: str, text: str) -> None:
        with self.lock:
            if self.to_wipe:
                self.pieces.clear()
            self.to_wipe = False
            self.pieces = [*self.pieces, (html, text)][-MOST:]
            self.draw_soon()

    def clear(self, wait: bool) -> None:
        with self.lock:
            self.to_wipe = wait
            if not wait:
                self.pieces.clear()
                self.draw_soon()

    def bundle(self) -> dict[str, str]:
        html, text = ("".join(parts) for parts in zip(*self.pieces, strict=True)) if self.pieces else ("", "")
        return {"text/plain": text, "text/html": html}

    def draw_soon(self) -> None:
        if not self.shown or self.due is not None:
            return
        if (left := self.last + OFTEN - time.monotonic()) <= 0:
            self.draw()
            return
        self.due = threading.Timer(left, self.draw)
        self.due.name, self.due.daemon = "gpufit-output", True
        self.due.start()

    def draw(self, *, update: bool = True) -> None:
        with self.lock:
            self.due, self.last, self.shown = None, time.monotonic(), True
            self.emit(Display(self.bundle(), {}, {"display_id": self.id}, update))


def draw_in_place(emit: Emit) -> None:
    """From now on, an Output is drawn by this file."""

    class Loader(SourceFileLoader):
        def exec_module(self, module: ModuleType) -> None:
            super().exec_module(module)
            module.Output = _drawn(module.Output, emit)  # type: ignore[attr-defined]

    class Finder:
        @staticmethod
        def find_spec(name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
            spec = PathFinder.find_spec(name, path) if name == NAME else None
            if spec is not None and spec.origin is not None:
                spec.loader = Loader(name, spec.origin)
            return spec

    sys.meta_path.insert(0, Finder)


def _drawn(real: Any, emit: Emit) -> type:
    class Output(real):  # type: ignore[misc]  # untyped library
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            _drawings[self.model_id] = Drawing(emit, self.model_id)

        def __enter__(self) -> None:
            _inside.outputs = [*getattr(_inside, "outputs", ()), _drawings[self.model_id]]

        def __exit__(self, *error: Any) -> Any:
            try:
                return super().__exit__(*error)  # which shows an error inside of the output
            finally:
                _inside.outputs = _inside.outputs[:-1]

        def append_stdout(self, text: str) -> None:
            with self:
                take_text(text)

        append_stderr = append_stdout

        def append_display_data(self, display_object: Any) -> None:
            from IPython.display import display

            with self:
                display(display_object)

    Output.__module__, Output.__qualname__ = NAME, "Output"
    return Output


def _innermost() -> Drawing | None:
    outputs = getattr(_inside, "outputs", None)
    return outputs[-1] if outputs else None


def take_text(text: str) -> bool:
    """Whether an output of this thread took what was printed."""
    if (drawing := _innermost()) is not None:
        drawing.add(f'<span style="white-space:pre-wrap">{escape(text)}</span>', text)
    return drawing is not None


def take_display(data: Mapping[str, Any]) -> bool:
    """Whether an output of this thread took what was shown."""
    if (drawing := _innermost()) is not None:
        text = str(data.get("text/plain", ""))
        html = data.get("text/html") or _picture(data) or f"<pre>{escape(text)}</pre>"
        drawing.add(str(html), text + "\n")
    return drawing is not None


def take_clear(wait: bool) -> bool:
    """Whether it was an output of this thread that was to be cleared."""
    if (drawing := _innermost()) is not None:
        drawing.clear(wait)
    return drawing is not None


def take_view(data: Mapping[str, Any]) -> bool:
    """Whether what is to be shown is an output, which is shown by this."""
    drawing = _drawings.get((data.get(WIDGET_VIEW) or {}).get("model_id", ""))
    if drawing is not None:
        drawing.draw(update=False)
    return drawing is not None


def draw_the_rest() -> None:
    """What waits for its time is drawn now: the cell has ended."""
    for drawing in list(_drawings.values()):
        with drawing.lock:
            if drawing.due is not None:
                drawing.due.cancel()
                drawing.draw()


def _picture(data: Mapping[str, Any]) -> str:
    if "image/png" in data:
        return f'<img src="data:image/png;base64,{data["image/png"]}">'
    return str(data.get("image/svg+xml", ""))
