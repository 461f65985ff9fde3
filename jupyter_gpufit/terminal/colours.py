"""Colours of a terminal: for what is laid out already, since a colour takes characters and no room; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

BOLD, DIM, RED, GREEN, YELLOW, CYAN = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36))
RESET = "\x1b[0m"
_STATES = {
    **dict.fromkeys(("running", "done"), GREEN),
    **dict.fromkeys(("queued", "estimating", "starting", "saving", "moving", "released"), YELLOW),
    **dict.fromkeys(("failed", "lost", "stopped"), RED),
}
_STATE = re.compile(rf"(?<=  )({'|'.join(_STATES)})(?=  )")
_DRAWN = re.compile("[█⠁-⣿]+")  # bars, and curves of dots
_HEADS = ("device  ", "held by  ", "job  ", "    waits  ", "    waits", "name  ", "user  ", "day  ")


def wanted(env: Mapping[str, str], *, tty: bool) -> bool:
    """Whether to write colours: to a terminal that has them, and where nobody said no (no-color.org)."""
    return tty and not env.get("NO_COLOR") and env.get("TERM") != "dumb"


def coloured(text: str) -> str:
    """The same text with its heads, states, bars and curves in colours."""
    return "\n".join(map(_line, text.split("\n")))


def _line(line: str) -> str:
    if line.startswith(_HEADS):
        return f"{BOLD}{line}{RESET}"
    if line.startswith("Please: "):
        return f"{YELLOW}{line}{RESET}"
    line = _STATE.sub(lambda found: f"{_STATES[found[1]]}{found[1]}{RESET}", line)
    return _DRAWN.sub(lambda found: f"{CYAN}{found[0]}{RESET}", line)
