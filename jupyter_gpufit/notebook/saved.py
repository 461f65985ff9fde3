"""What stands in a saved notebook in a widget's place: a file on the web has no widgets, but people read it there."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from html import escape
from itertools import groupby
from typing import Any, NamedTuple

from IPython.display import publish_display_data
from ipywidgets import Widget

from .written import last_look

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MOST = 200_000  # characters of HTML: the end of a long output
EVERY = 5.0  # seconds between two looks that are told aside
PER_SECOND = 4000  # characters of such: longer ones come less often
PICTURES = ("image/png", "image/jpeg")


class Likeness(NamedTuple):
    """How something looks where there are no widgets, and the mark by which the panel knows it."""

    text: str
    html: str
    mark: Mapping[str, Mapping[str, Any]]


class Still:
    """Shows a widget, and says what is read in its place.

    To say it anew draws the widget anew. So between two changes of state it is only told aside: under a name that no
    page shows. The labextension hears it, and puts it into the file when that is saved.
    """

    def __init__(self, widget: Widget, name: str, *, has_output: bool = False) -> None:
        self._widget, self._name = widget, name  # its display_id
        self._has_output = has_output  # whether the job's output stands in it
        self._stands = False
        self._guard = threading.Lock()  # not held during a look, which may wait for a lock of those who tell
        self._begun = self._told = 0  # looks, and the latest of them that went out: an older one stays behind
        self._next = 0.0  # time.monotonic() from which on it may be told aside
        self._later: threading.Timer | None = None  # tells the rest of a burst: perhaps no other event comes

    def show(self, look: Likeness) -> None:
        """Put it under the cell."""
        self._publish(look, self._name, {}, update=False)
        self._stands = True

    def renew(self, look: Callable[[], Likeness]) -> None:
        """Draw it anew, if it stands there."""
        if not self._stands:
            return
        number, look_now = self._look(look)
        with self._guard:
            if self._is_latest(number):
                self._publish(look_now, self._name, {}, update=True)

    def tell(self, look: Callable[[], Likeness], now: float) -> None:
        """Tell aside how it looks: now, or a little later if that was told just now."""
        if self._stands and now >= self._next:
            self._tell(look, now)
            return
        with self._guard:
            if self._stands and self._later is None:
                run = contextvars.copy_context().run  # a kernel finds there which cell it belongs to
                self._later = threading.Timer(self._next - now, run, (self._tell_later, look, self._next))
                self._later.daemon = True
                self._later.start()

    def _tell_later(self, look: Callable[[], Likeness], now: float) -> None:
        with suppress(Exception):  # the thread's outermost frame: the next event tells it
            self._tell(look, now)

    def _tell(self, look: Callable[[], Likeness], now: float) -> None:
        number, look_now = self._look(look)
        with self._guard:
            if self._is_latest(number):
                self._next = now + max(EVERY, len(look_now.html) / PER_SECOND)
                self._publish(look_now, f"{self._name}-aside", {"aside": True}, update=True)

    def _look(self, look: Callable[[], Likeness]) -> tuple[int, Likeness]:
        with self._guard:
            later, self._later = self._later, None  # before the look: what comes from here on is another burst's
            if later is not None:
                later.cancel()
            self._begun += 1
            number = self._begun
        return number, look()

    def _is_latest(self, number: int) -> bool:
        if number < self._told:
            return False
        self._told = number
        return True

    def _publish(self, look: Likeness, name: str, more: Mapping[str, Any], *, update: bool) -> None:
        if self._has_output:
            more = {**more, "output": True}
        view = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
        data = {WIDGET_VIEW: view, "text/plain": look.text, "text/html": look.html}
        mark = {key: {**value, **more} for key, value in look.mark.items()}
        publish_display_data(data, mark, transient={"display_id": name}, update=update)


def sentence(text: str) -> str:
    """One of ours as HTML: what can be typed stands between backticks."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def html_of(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Outputs of a cell, as a notebook has them, on a page without scripts."""
    parts: list[str] = []
    length = 0
    for output in reversed(_joined(outputs)):
        parts.append(_html(output))
        length += len(parts[-1])
        if length > MOST:
            parts.append("<pre>…</pre>")
            break
    return "".join(reversed(parts))


def _joined(outputs: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """With neighbouring texts of one stream as one, as a page has them: a bar is drawn over by a later text."""
    found: list[Mapping[str, Any]] = []
    for stream, some in groupby(outputs, lambda output: output.get("name") if "text" in output else None):
        together = list(some)
        if stream is None:
            found += together
        else:
            found.append({**together[0], "text": "".join(output["text"] for output in together)})
    return found


def _html(output: Mapping[str, Any]) -> str:
    if output["output_type"] == "stream":
        return f"<pre>{escape(last_look(output['text'])[-MOST:])}</pre>"
    data = output["data"]
    for kind in PICTURES:
        if kind in data:
            return f'<img src="data:{kind};base64,{data[kind].strip()}">'
    return str(data.get("text/html") or data.get("image/svg+xml") or f"<pre>{escape(data.get('text/plain', ''))}</pre>")


def text_of(outputs: Iterable[Mapping[str, Any]]) -> str:
    """The same where there are no pages: in a terminal, or what a search reads."""
    parts = [_plain(output).rstrip("\n") for output in _joined(outputs)]
    return "\n".join(filter(None, parts))[-MOST:]


def _plain(output: Mapping[str, Any]) -> str:
    return last_look(output["text"]) if output["output_type"] == "stream" else str(output["data"].get("text/plain", ""))
