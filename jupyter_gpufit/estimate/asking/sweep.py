"""The same cell with other values of one name: how it is asked for, put into the source, and searched; pure."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...errors import BadOption

MOST_VALUES = 12
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


def with_values(source: str, values: Mapping[str, int], before: Collection[str] = ()) -> str:
    """The source with these names' values: where it gives one a number by itself, it now gives this one.

    A variable counts at the outermost level and in a class there; `batch //= 2` afterwards still does what it says.
    `before`: variables of earlier cells.
    """
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    found = [(value, str(number)) for name, number in values.items() for value in _given(tree, name, name in before)]
    ahead = len(lines) + 1, 0
    for value, text in sorted(found, key=lambda pair: (pair[0].end_lineno, pair[0].end_col_offset), reverse=True):
        assert value.end_lineno is not None and value.end_col_offset is not None
        if (value.end_lineno, value.end_col_offset) <= ahead:  # else it is a part of what is replaced as a whole
            _replace(lines, value, text)
            ahead = value.lineno, value.col_offset
    return "".join(lines)


def _given(tree: ast.Module, name: str, is_variable: bool) -> list[ast.expr]:
    """What is given to a name: a variable, or else by a number a keyword, a key, an attribute and an option's default.

    Beside a variable these are something else's: `dim` of a model is not that of a softmax. And so are those with
    another number than the first: the batch size of a loader for validation.
    """
    outermost = [*tree.body, *(node for outer in tree.body if isinstance(outer, ast.ClassDef) for node in outer.body)]
    found = [
        node.value
        for node in outermost
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _assigned(node) == name
    ]
    if found or is_variable:
        return found
    numbers = [one for one in _by_number(tree, name) if isinstance(one, ast.Constant) and type(one.value) is int]
    numbers.sort(key=lambda one: (one.lineno, one.col_offset))
    return [one for one in numbers if one.value == numbers[0].value]


def _by_number(tree: ast.Module, name: str) -> Iterator[ast.expr | None]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            is_its = any(_option(arg) == name for arg in node.args) and _last_name(node.func) == "add_argument"
            yield from (one.value for one in node.keywords if one.arg == ("default" if is_its else name))
        elif isinstance(node, ast.Dict):
            keys = (key.value if isinstance(key, ast.Constant) else None for key in node.keys)
            yield from (value for key, value in zip(keys, node.values, strict=True) if key == name)
        elif isinstance(node, ast.Assign) and any(
            isinstance(to, ast.Attribute) and to.attr == name for to in node.targets
        ):
            yield node.value


def _option(arg: ast.expr) -> str:
    """The attribute that argparse makes of `--batch-size`."""
    text = arg.value if isinstance(arg, ast.Constant) else ""
    return text.lstrip("-").replace("-", "_") if isinstance(text, str) else ""


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _assigned(node: ast.Assign | ast.AnnAssign) -> str:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _replace(lines: list[str], value: ast.expr, text: str) -> None:
    """Put the text where the value stood; line numbers stay, so that errors point to the user's lines."""
    assert value.end_lineno is not None and value.end_col_offset is not None
    first, last = value.lineno - 1, value.end_lineno - 1
    before = lines[first].encode()[: value.col_offset].decode()
    behind = lines[last].encode()[value.end_col_offset :].decode()
    lines[first : last + 1] = [before + text + behind, *["\n"] * (last - first)]


def uses_name(source: str, name: str, *, is_variable: bool = False) -> bool:
    """`is_variable`: of an earlier cell."""
    tree = ast.parse(source)
    named = any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(tree))
    return named or bool(_given(tree, name, is_variable))


@dataclass(frozen=True)
class HowFine:
    """How far a search goes."""

    tries: int = 10  # traces to find the largest value
    leap: int = 16  # times what fits, as long as nothing was too large
    near: int = 50  # it ends within one such part of what fits


FINE, ROUGH = HowFine(), HowFine(tries=5, leap=4, near=8)


def next_value(
    known: Sequence[tuple[int, int]], room: int, in_vain: Collection[int] = (), how: HowFine = FINE
) -> int | None:
    """The value to try next for the largest whose need (second of each pair) is within `room`; None: it is found.

    Memory grows about evenly with a batch, so two points say where the limit is; the points around it prove it.
    `in_vain`: values for which the data has not enough samples, whose need says nothing.
    """
    fits = largest(known, room)
    fails = min((value for value, need in known if need > room), default=0)
    ends = min(in_vain, default=0)
    limit = min(filter(None, (fails, ends)), default=0)
    tried = len(known) + len(in_vain)
    if tried >= how.tries or fits >= LARGEST or (limit and limit - fits <= max(1, fits // how.near)):
        return None
    if limit == ends and ends:
        return (fits + ends) // 2
    if not fails:
        return min(max(_by_line(known, room, how), fits * 2), fits * how.leap, LARGEST)
    return min(max(_by_line(known, room, how), fits + 1), fails - 1)


def of_all_data(batches: Mapping[int, int]) -> int:
    """The value that gives all samples at once; 0: none is known. `batches`: what a loader gave at most, by value.

    Only a batch that grew with the name, and then less than it, is the name's: others are the same for all values (of
    a length, of steps between two updates), or shrink.
    """
    most = max(batches)
    for value, batch in batches.items():
        if value < most and batch >= value and not batch % value and batch < batches[most] < most * (batch // value):
            return -(-batches[most] // (batch // value))
    return 0


def _by_line(known: Sequence[tuple[int, int]], room: int, how: HowFine) -> int:
    """Where the line through the two points next to the limit reaches it."""
    if len(known) < 2:
        return known[0][0] // 2
    (x0, y0), (x1, y1) = sorted(sorted(known, key=lambda pair: abs(pair[1] - room))[:2])
    return x1 * how.leap if y1 <= y0 else int(x0 + (room - y0) * (x1 - x0) / (y1 - y0))


def largest(known: Sequence[tuple[int, int]], room: int) -> int:
    """The largest value that was seen to fit; 0 when none does."""
    return max((value for value, need in known if need <= room), default=0)
