"""Statements without which a cell is traced once more: one of them ended the first trace, which lets nobody out.

What Python writes goes to a scratch directory, and what it asks of servers can be answered. Compiled code is refused by
the system. Where a statement's value is used by nobody, the cell can do without it: it saves, or reports.
"""

from __future__ import annotations

import ast
import errno
import os
from collections.abc import Collection, Iterator
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


def without(tree: ast.AST, filename: str, places: Collection[Place]) -> ast.AST:
    """The tree without the statements at these places, if their values are not used."""
    lines = {line for file, line in places if file == filename}
    return _LeaveOut(lines).visit(tree) if lines else tree


def in_words(place: Place, cell: str) -> str:
    file, line = place
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
        covered = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if isinstance(node.value, ast.Call) and not self._lines.isdisjoint(covered):
            return ast.copy_location(ast.Pass(), node)
        return node
