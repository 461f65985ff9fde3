"""The optimizer's state on the host: it comes to the device for the step, a few parameters at a time. Exact.

The user's own optimizer steps, with its own operations; only where its state is meanwhile is another matter (pager.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from ...units import format_bytes
from ..plan import Facts, Notch
from .pager import LEAST, Pager, paged

NAME = "optimizer on the host"
EXACT = True
STEEP = False
REPLACES: tuple[str, ...] = ()
_AT_ONCE = 3  # of the largest state, how many there is room for in a step


class StatesMoved(TypedDict):
    """What a notch says, in bytes."""

    keep: int  # of the states, what stays on the device
    room: int  # for those that have come for a step
    host: int  # that it will take of the host


def notches(facts: Facts) -> list[Notch]:
    """With a quarter of the states on the host, with half, and so on."""
    if facts.why_not_moved or facts.largest_state < LEAST:
        return []
    room, found = _AT_ONCE * facts.largest_state, []
    for quarters in (3, 2, 1, 0):
        keep = facts.states * quarters // 4
        if facts.states > keep + room:
            part = StatesMoved(keep=keep, room=room, host=0)
            of = f"{format_bytes(facts.states - keep)} of " if keep else ""
            found.append(Notch(part, f"keeping {of}the optimizer's {format_bytes(facts.states)} on the host"))
    return found


def why_not(facts: Facts) -> str:
    """Why there is no notch."""
    if facts.why_not_moved:
        return facts.why_not_moved
    return "the optimizer keeps little" if facts.states else "no optimizer was seen to keep anything"


@contextmanager
def around(part: StatesMoved) -> Iterator[None]:
    """Move what optimizers keep."""
    with paged(Pager(part["room"], states_only=True, keep=part["keep"], reserved=part["host"])):
        yield
