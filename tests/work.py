"""How much work something is: the calls that it makes, which are the same on any machine, however busy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls_of(what: Callable[[], object], *, named: str | None = None) -> int:
    """Of Python's functions and of C's; with `named` only those of C's of that name."""
    made = 0

    def count(_frame: FrameType, event: str, called: object) -> None:
        nonlocal made
        if named is None:
            made += event in {"call", "c_call"}
        else:
            made += event == "c_call" and getattr(called, "__name__", "") == named

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        what()
    finally:
        sys.setprofile(before)
    return made
