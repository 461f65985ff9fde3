"""Spilling: of all that the cell has on its device, what was not used for the longest time is on the host. Exact.

Weights, gradients, states and what a forward keeps for its backward alike (pager.py). So a model that is larger than
the device trains there, as long as what a single operation takes fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypedDict

from ...units import format_bytes
from ..plan import Facts, Notch
from .optimizer import NAME as STATES_MOVED
from .pager import LEAST, Pager, paged

NAME = "spill"
EXACT = True
STEEP = False
REPLACES: tuple[str, ...] = (STATES_MOVED,)
_SHARES = (12, 10, 8, 7, 6, 5, 4, 3, 2, 1)  # sixteenths of what the cell takes as it is
_AT_ONCE = 3  # of the largest storage: below that every operation would wait


class DeviceRoom(TypedDict):
    """What a notch says, in bytes."""

    room: int  # on the device
    host: int  # that it will take of the host


def notches(facts: Facts) -> list[Notch]:
    """With less and less room on the device."""
    if facts.why_not_moved or facts.largest < LEAST:
        return []
    least = _AT_ONCE * facts.largest
    rooms = [room for share in _SHARES if (room := facts.peak * share // 16) > least]
    rooms += [room for room in (least, facts.largest) if room < facts.peak]
    words = "spilling to the host all but {}"
    return [Notch(DeviceRoom(room=room, host=0), words.format(format_bytes(room))) for room in rooms]


def why_not(facts: Facts) -> str:
    """Why there is no notch."""
    return facts.why_not_moved or "nothing was seen on the device that is large enough"


@contextmanager
def around(part: DeviceRoom) -> Iterator[None]:
    """Keep the cell within its room."""
    with paged(Pager(part["room"], states_only=False, reserved=part["host"])):
        yield
