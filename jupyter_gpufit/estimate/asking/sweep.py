"""The same cell with other values of one name: how it is asked for, put into the source, and searched; pure."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...errors import BadOption

MOST_VALUES = 12
MOST_TRIES = 10  # traces to find the largest value
LEAP = 16  # times what fits, as long as nothing was too large
NEAR_ENOUGH = 50  # the search ends within one fiftieth
LARGEST = 1 << 20  # where the search gives up looking for one that does not fit


@dataclass(frozen=True)
class Sweep:
    """--sweep batch=8,16,32"""

    name: str
    values: tuple[int, ...]


def parse_sweep(text: str) -> Sweep:
    name, _, values = text.replace(" ", "").partition("=")
    parts = values.split(",")
    if not name.isidentifier() or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise BadOption(f"--sweep {text} cannot be read. Write a name and numbers: --sweep batch=8,16,32")
    if len(parts) > MOST_VALUES:
        raise BadOption(
            f"--sweep takes {MOST_VALUES} values at most, since each takes seconds; these are {len(parts)}."
        )
    return Sweep(name, tuple(sorted({int(part) for part in parts})))


def with_values(source: str, values: Mapping[str, int]) -> str:
    """The source with these names' values: where it assigns one by itself, it now assigns this value.

    Only plain assignments at the outermost level count; `batch //= 2` afterwards still does what it says.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    for node in reversed(tree.body):
        name = _assigned(node)
        if name in values:
            assert isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            _replace(lines, node.value, str(values[name]))
    return "".join(lines)


def _assigned(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        target = node.target
    return target.id if isinstance(target, ast.Name) else ""


def _replace(lines: list[str], value: ast.expr, text: str) -> None:
    """Put the text where the value stood; line numbers stay, so that errors point to the user's lines."""
    assert value.end_lineno is not None and value.end_col_offset is not None
    first, last = value.lineno - 1, value.end_lineno - 1
    before = lines[first].encode()[: value.col_offset].decode()
    behind = lines[last].encode()[value.end_col_offset :].decode()
    lines[first : last + 1] = [before + text + behind, *["\n"] * (last - first)]


def uses_name(source: str, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(source)))


def next_value(known: Sequence[tuple[int, int]], room: int) -> int | None:
    """The value to try next for the largest whose need (second of each pair) is within `room`; None: it is found.

    Memory grows about evenly with a batch, so two points say where the limit is; the points around it prove it.
    """
    fits = largest(known, room)
    fails = min((value for value, need in known if need > room), default=0)
    if len(known) >= MOST_TRIES or fits >= LARGEST or (fails and fails - fits <= max(1, fits // NEAR_ENOUGH)):
        return None
    if not fails:
        return min(max(_by_line(known, room), fits * 2), fits * LEAP, LARGEST)
    return min(max(_by_line(known, room), fits + 1), fails - 1)


def _by_line(known: Sequence[tuple[int, int]], room: int) -> int:
    """Where the line through the two points next to the limit reaches it."""
    if len(known) < 2:
        return known[0][0] // 2
    (x0, y0), (x1, y1) = sorted(sorted(known, key=lambda pair: abs(pair[1] - room))[:2])
    return x1 * LEAP if y1 <= y0 else int(x0 + (room - y0) * (x1 - x0) / (y1 - y0))


def largest(known: Sequence[tuple[int, int]], room: int) -> int:
    """The largest value that was seen to fit; 0 when none does."""
    return max((value for value, need in known if need <= room), default=0)
