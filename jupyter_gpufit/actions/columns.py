"""Rows of text under each other, in the room that there is; pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap

GAP = 2  # characters between two columns
LEAST = 10  # characters: cut to less, a name or a bar says nothing
SENTENCE = 30  # characters that the last column wants, whose sentences go on below
INDENT = 4  # characters, of what stands below its row
_AMOUNT = re.compile(r"\d (?:B|[KMGT]iB|%|s|min|h|d)\b|\d %")


def columns(rows: Sequence[Sequence[str]], width: int = 0) -> str:
    """The first row being the heads. In `width` characters the widest cells are cut, and the last column is wrapped.

    No amount is cut: where it is too narrow even so, the last columns stand below their row.
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    if not width or sum(widths) + GAP * (len(widths) - 1) <= width:
        return "\n".join(_line(row, widths) for row in rows)
    least = [_least(width, [row[column] for row in rows[1:]]) for column, width in enumerate(widths)]
    *others, last = widths
    wanted = min(last, SENTENCE)
    if sum(least[:-1]) + GAP * len(others) + wanted <= width:
        others = _shrunk(others, least, width - wanted - GAP * len(others))
        return "\n".join(_beside(row, others, width) for row in rows)
    count = max(1, sum(sum(least[:at]) + GAP * (at - 1) <= width for at in range(1, len(widths))))
    shown = _shrunk(widths[:count], least, width - GAP * (count - 1))
    return "\n".join(_below(row, rows[0], shown, width) for row in rows)


def _least(width: int, cells: Sequence[str]) -> int:
    return width if any(map(_AMOUNT.search, cells)) else min(width, LEAST)


def _shrunk(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Less of the widest that may be cut, as long as there is more than `room`."""
    found = list(widths)
    while sum(found) > room and (left := [at for at, width in enumerate(found) if width > least[at]]):
        found[max(left, key=lambda at: found[at])] -= 1
    return found


def _cells(row: Sequence[str], widths: Sequence[int]) -> str:
    return _line([_cut(cell, width) for cell, width in zip(row, widths, strict=False)], widths)


def _beside(row: Sequence[str], others: Sequence[int], width: int) -> str:
    indent = sum(others) + GAP * len(others)
    parts = wrap(row[-1], max(1, width - indent), break_on_hyphens=False) or [""]
    lines = [f"{_cells(row, others):<{indent}}{parts[0]}".rstrip(), *(" " * indent + part for part in parts[1:])]
    return "\n".join(lines)


def _below(row: Sequence[str], heads: Sequence[str], shown: Sequence[int], width: int) -> str:
    """What has no room in the row stands under it, each with its head; of the last column the cell says enough."""
    first = _cells(row, shown)
    if row is heads:
        return first
    pairs = zip(heads[len(shown) : -1], row[len(shown) : -1], strict=True)
    parts = [f"{head} {cell}" for head, cell in pairs if cell not in ("", "-")]
    room = max(1, width - INDENT)
    told = (" " * GAP).join(filter(None, [*(part.replace(" ", "\xa0") for part in parts), row[-1]]))
    lines = wrap(told, room, break_on_hyphens=False)
    return "\n".join([first, *(" " * INDENT + line.replace("\xa0", " ") for line in lines)])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return (" " * GAP).join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else f"{cell[: max(0, width - 1)]}…"
