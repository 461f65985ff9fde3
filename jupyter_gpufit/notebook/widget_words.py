"""What a box of widgets says, in words, for those who read a saved notebook; pure.

An ordinary kernel leaves `VBox(children=(Button(description='go', style=ButtonStyle()), ...` there. The words are those
of when it was shown. A page that follows a job by its journal draws the same (labextension/src/words/widgets.ts).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import unescape
from typing import Any

from ..units import format_figure
from .saved import text_of

State = Mapping[str, Any]
REFERENCE = re.compile("IPY_MODEL_(.+)")
DEEPEST = 20  # boxes in each other


def words_of(id: str, state_of: Callable[[str], State | None], depth: int = 0) -> str:
    """What it says, and what is in it; empty: nothing that could be read."""
    state = state_of(id)
    if state is None or depth > DEEPEST:
        return ""
    if (children := within(state)) is None:
        return _one(state)
    words = [words_of(child, state_of, depth + 1) for child in children]
    return (" " if state.get("_model_name") == "HBoxModel" else "\n").join(filter(None, words))


def within(state: State) -> list[str] | None:
    """The widgets that it holds, by their names; None: it is no box."""
    children = state.get("children")
    if not isinstance(children, list | tuple):
        return None
    return [found[1] for child in children if (found := REFERENCE.fullmatch(str(child)))]


def _one(state: State) -> str:
    """What it says of itself decides, and not which class it is of."""
    name, label, value = str(state.get("_model_name", "")), str(state.get("description") or ""), state.get("value")
    if name == "OutputModel":
        return text_of(state.get("outputs", ()))
    if isinstance(labels := state.get("_options_labels"), list | tuple):
        index = state.get("index")
        chosen = index if isinstance(index, list | tuple) else [index]
        return _after(label, ", ".join(str(labels[at]) for at in chosen if isinstance(at, int) and at < len(labels)))
    match value:
        case None:
            return f"[{label}]" if label else ""
        case bool():
            return f"{'☑' if value else '☐'} {label}".rstrip()
        case _ if name.startswith("Password"):
            return _after(label, "••••")  # this stays in the notebook's file
        case str() if name.startswith("HTML"):
            return _after(label, unescape(re.sub("<[^>]*>", "", value)).strip())
        case int() | float():
            most = state.get("max")
            return _after(label, format_figure(value) + (f" of {format_figure(most)}" if _is_bar(name, most) else ""))
        case str() | list() | tuple():
            return _after(label, value if isinstance(value, str) else ", ".join(map(str, value)))
    return label  # bytes: a picture


def _is_bar(name: str, most: object) -> bool:
    return "Progress" in name and isinstance(most, int | float)


def _after(label: str, words: str) -> str:
    return f"{label} {words}".strip()
