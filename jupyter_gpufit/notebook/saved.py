"""What stands in a saved notebook in a widget's place: a file on the web has no widgets, but people read it there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from IPython.display import publish_display_data
from ipywidgets import Widget

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
MOST = 200_000  # characters of HTML: the end of a long output
PICTURES = ("image/png", "image/jpeg")


def publish_widget(
    widget: Widget, name: str, *, text: str, html: str, mark: Mapping[str, Any], update: bool, has_output: bool = False
) -> None:
    """Show it, or renew what is read where it cannot be shown; `name` is its display_id.

    By `mark` the panel knows it, and whether the job's output stands in it.
    """
    mark = {key: {**value, "output": True} if has_output else value for key, value in mark.items()}
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    data = {WIDGET_VIEW: view, "text/plain": text, "text/html": html}
    publish_display_data(data, dict(mark), transient={"display_id": name}, update=update)


def sentence(text: str) -> str:
    """One of ours as HTML: what can be typed stands between backticks."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


def html_of(outputs: Iterable[Mapping[str, Any]]) -> str:
    """Outputs of a cell, as a notebook has them, on a page without scripts."""
    parts: list[str] = []
    length = 0
    for output in reversed(list(outputs)):
        parts.append(_html(output))
        length += len(parts[-1])
        if length > MOST:
            parts.append("<pre>…</pre>")
            break
    return "".join(reversed(parts))


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
    parts = [_plain(output).rstrip("\n") for output in outputs]
    return "\n".join(filter(None, parts))[-MOST:]


def _plain(output: Mapping[str, Any]) -> str:
    return last_look(output["text"]) if output["output_type"] == "stream" else str(output["data"].get("text/plain", ""))


def last_look(text: str) -> str:
    """A text as a terminal leaves it where lines were written over."""
    return "\n".join(_left(line) for line in text.split("\n"))


def _left(line: str) -> str:
    shown = ""
    for over in line.split("\r"):
        shown = over + shown[len(over) :]
    return shown
