"""Rows of text under each other, in the room that there is; pure."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

GAP = 2  # characters between two columns
LEAST = 6  # characters: below it a cell says nothing
SENTENCE = 30  # characters that the last column wants, whose sentences go on below


def columns(rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """The first row being the heads. In `width` characters the widest cells are cut, and the last column is wrapped.

    Where it is too narrow even so, the last column stands below its row.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if not width or sum(widths) + GAP * (len(widths) - 1) <= width:
        return "\n".join(_line(row, widths) for row in rows)
    *others, last = widths
    wanted = min(last, SENTENCE)
    others = _shrunk(others, width - wanted - GAP * len(others))
    room = width - sum(others) - GAP * len(others)
    if room >= wanted:
        return "\n".join(_wrapped(row, others, room, beside=True) for row in rows)
    others = _shrunk(others, width - GAP * (len(others) - 1), least=2)
    return "\n".join(_wrapped(row, others, width - 4, beside=False) for row in rows)


def _shrunk(widths: Sequence[int], room: int, *, least: int = LEAST) -> list[int]:
    """Less of the widest, as long as there is more than `room`."""
    found = list(widths)
    while sum(found) > room and max(found) > least:
        found[found.index(max(found))] -= 1
    return found


def _wrapped(row: Sequence[str], others: Sequence[int], room: int, *, beside: bool) -> str:
    *cells, last = row
    first = _line([_cut(cell, width) for cell, width in zip(cells, others, strict=True)], others)
    parts = wrap(last, max(1, room), break_on_hyphens=False) or [""]
    if not beside:
        return "\n".join([first, *(f"    {part}" for part in parts if part)])
    indent = sum(others) + GAP * len(others)
    lines = [f"{first:<{indent}}{parts[0]}".rstrip(), *(" " * indent + part for part in parts[1:])]
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * GAP).join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: max(0, width - 1)]}…"
