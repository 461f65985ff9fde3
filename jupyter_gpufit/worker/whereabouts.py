"""Where the user's code is just now, in words: why a training that was asked for a checkpoint found no safe point."""

from __future__ import annotations

import ast
import itertools
import os
import sys
from collections.abc import Iterator
from types import FrameType

from ..graph.sources import source_of

OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_IMPORTING = "<frozen importlib."  # Python's own functions below an import
MOST = 3  # frames named
OF_A_CHAIN = 12  # the same, where all are wanted: more are a recursion, or a library's inside
_KINDS = {
    "<listcomp>": "a list comprehension",
    "<setcomp>": "a set comprehension",
    "<dictcomp>": "a dict comprehension",
    "<genexpr>": "a generator expression",
    "<lambda>": "a lambda",
    "<module>": "the cell",
}
_WITHOUT_A_FRAME = (ast.ListComp, ast.SetComp, ast.DictComp) if sys.version_info >= (3, 12) else ()


def where_is(thread: int) -> str:
    """ "inside `f` (line 3), called from a list comprehension (line 5)", of the thread with this identity."""
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ""
    found = list(_users(frame))
    named = [_named(one) for one in found if _is_a_cells(one)][:MOST]
    if found and not _is_a_cells(found[0]):
        named.insert(0, _library(found[0]))
    return f"inside {', called from '.join(named[:MOST])}" if named else ""


def chain_of(thread: int) -> str:
    """The innermost frame and all that called it, out to the cell's own line; empty if it does not run the cell."""
    frame = sys._current_frames().get(thread)
    found = [] if frame is None else list(_users(frame))
    if not found or found[-1].f_code.co_name != "<module>" or not _is_a_cells(found[-1]):
        return ""
    half = OF_A_CHAIN // 2
    shown = found[:-1] if len(found) <= OF_A_CHAIN + 1 else [*found[:half], *found[-half - 1 : -1]]
    named = [_named(one) if _is_a_cells(one) else _library(one, line=True) for one in shown]
    named[half:half] = ["…"] if len(shown) < len(found) - 1 else []
    return ", called from ".join([*named, f"line {found[-1].f_lineno} of the cell"])


def _users(frame: FrameType | None) -> Iterator[FrameType]:
    """From the innermost frame out to the cell's own, without ours and the import system's."""
    while frame is not None:
        if not frame.f_code.co_filename.startswith((OURS, _IMPORTING)):
            yield frame
        frame = None if frame.f_code.co_name == "<module>" and _is_a_cells(frame) else frame.f_back


def _is_a_cells(frame: FrameType) -> bool:
    return source_of(frame.f_code.co_filename) is not None


def _named(frame: FrameType) -> str:
    name = frame.f_code.co_name
    what = _KINDS.get(name) or f"`{name}`"
    return f"{what} (line {frame.f_lineno}{_block(frame)})"


def _block(frame: FrameType) -> str:
    """Whether it stands where no loop has a safe point, which its line alone does not tell."""
    source = source_of(frame.f_code.co_filename)
    try:
        tree = ast.parse("".join(source[0] if source is not None else ()))
    except SyntaxError:  # a cell's text before its magics became Python
        return ""
    nodes = [*ast.walk(tree)]
    blocks = [one.finalbody for one in nodes if isinstance(one, ast.Try) and one.finalbody]
    if any(block[0].lineno <= frame.f_lineno <= (block[-1].end_lineno or 0) for block in blocks):
        return ", in a `finally` block"
    around = [one for one in nodes if isinstance(one, _WITHOUT_A_FRAME) and _stands_in(frame, one)]
    return f", in {_KINDS[f'<{type(around[-1]).__name__.lower()}>']}" if around else ""


def _stands_in(frame: FrameType, node: ast.expr) -> bool:
    line, _, column, _ = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if line is None or column is None:
        return False
    return (node.lineno, node.col_offset) <= (line, column) < (node.end_lineno or 0, node.end_col_offset or 0)


def _library(frame: FrameType, *, line: bool = False) -> str:
    if frame.f_code.co_name == "<module>":
        return f"the import of {frame.f_globals.get('__name__', 'a module')}"
    file = os.path.basename(frame.f_code.co_filename.removeprefix("<frozen ").removesuffix(">"))
    return f"`{frame.f_code.co_name}` ({file}, line {frame.f_lineno})" if line else f"`{frame.f_code.co_name}` ({file})"
