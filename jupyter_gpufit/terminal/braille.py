"""Curves in characters of two by four dots, as dense as a terminal can draw them; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a character
EMPTY = 0x2800

Points = Sequence[tuple[float, float | None]]


def curve(points: Points, width: int, height: int) -> list[str]:
    """So many lines of so many characters; a point without a value is a gap in the line.

    Of many points that fall on one column of dots, the whole range is drawn: a spike stays.
    """
    known = [(at, y) for at, y in points if y is not None and math.isfinite(y)]
    if not known or width < 1 or height < 1:
        return [""] * max(0, height)
    low, high = min(y for _, y in known), max(y for _, y in known)
    first, last = known[0][0], known[-1][0]
    cells = [[0] * width for _ in range(height)]
    before: tuple[int, int] | None = None
    for at, y in points:
        if y is None or not math.isfinite(y):
            before = None
            continue
        column = round((at - first) / (last - first) * (2 * width - 1)) if last > first else 0
        row = round((high - y) / (high - low) * (4 * height - 1)) if high > low else 4 * height - 1
        for dot in _line(before or (column, row), (column, row)):
            cells[dot[1] // 4][dot[0] // 2] |= _DOTS[dot[1] % 4][dot[0] % 2]
        before = column, row
    return ["".join(chr(EMPTY + dots) for dots in line) for line in cells]


def _line(start: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots from one to the other."""
    (left, top), (right, bottom) = start, end
    steps = max(abs(right - left), abs(bottom - top), 1)
    for step in range(steps + 1):
        yield left + round((right - left) * step / steps), top + round((bottom - top) * step / steps)


def chart(title: str, points: Points, width: int, height: int, written: Sequence[str]) -> list[str]:
    """A curve under its title, with its largest and least value, as they are `written`, at its right."""
    largest, least = written
    room = max(8, width - max(map(len, written)) - 1)
    drawn = curve(points, room, height)
    marks = [largest, *[""] * (height - 2), least] if height > 1 else [largest]
    return [title[:width], *(f"{line:<{room}} {mark}".rstrip() for line, mark in zip(drawn, marks, strict=True))]
