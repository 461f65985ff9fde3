"""Statements without which a cell is traced once more: one of them ended the first trace, which lets nobody out.

What Python writes goes to a scratch directory, and what it asks of servers can be answered. Compiled code is refused by
the system. Where a statement's value is used by nobody, the cell can do without it: it saves, or reports. And without
an `assert`, wherever it stands, that failed after values had to be guessed: nobody knows whether it would.
"""

from __future__ import annotations

import ast
import errno
import linecache
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Any

Place = tuple[str, int]  # a file, as tracebacks call it, and a line

_REFUSED = (errno.EACCES, errno.EPERM, errno.ENETUNREACH)


def refused_at(error: BaseException, namespace: dict[str, Any]) -> Place | None:
    """Where the notebook's own code met something that a trace may not do; None: it is another error."""
    if not any(map(_is_refusal, _chain(error))):
        return None
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_globals is namespace:
            found = trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next
    return found


def check_at(error: BaseException) -> Place | None:
    """Where an `assert` failed; None: it is another error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, AssertionError):
        return None
    return _check_in((trace.tb_frame.f_code.co_filename, trace.tb_lineno))


def _check_in(place: Place) -> Place | None:
    """The `assert` that has this line, by its first: which line of it failed is told differently by each Python."""
    file, line = place
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(file)))):
            if isinstance(node, ast.Assert) and line in _lines_of(node):
                return file, node.lineno
    return None


def _lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def without(tree: ast.AST, filename: str, places: Collection[Place]) -> ast.AST:
    """The tree without the statements at these places, if their values are not used."""
    lines = {line for file, line in places if file == filename}
    return _LeaveOut(lines).visit(tree) if lines else tree


def in_words(place: Place, cell: str) -> str:
    file, line = place
    if _check_in(place):
        where = "" if file == cell else f" of {os.path.basename(file)}"
        return f"the check in line {line}{where} left out: its values are guessed"
    where = "" if file == cell else " of an earlier cell"
    return f"line {line}{where} left out: it writes a file, or asks a server"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_refusal(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in _REFUSED:
        return True
    try:
        return os.strerror(errno.EACCES) in str(error)  # of a library in another language, with its own errors
    except Exception:
        return False


class _LeaveOut(ast.NodeTransformer):
    def __init__(self, lines: set[int]) -> None:
        self._lines = lines

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        is_call = isinstance(node.value, ast.Call)
        return ast.copy_location(ast.Pass(), node) if is_call and self._is_left_out(node) else node

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return ast.copy_location(ast.Pass(), node) if self._is_left_out(node) else node

    def _is_left_out(self, node: ast.stmt) -> bool:
        return not self._lines.isdisjoint(_lines_of(node))
