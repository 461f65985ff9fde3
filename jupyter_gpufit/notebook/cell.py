"""The cell as the notebook has it: which names it uses, and its mistakes, before anything is started.

Lines are counted as the user sees them: the magic itself is the first.
"""

from __future__ import annotations

import ast
import re
from importlib import metadata, util
from types import FunctionType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from ..errors import MagicInCell, NameNotDefined, NoTorch
from ..jobs.events import Failure
from ..program import hidden
from ..program.reading.cell import CellNames, check_names, names_of, names_of_code
from ..system.version import pip_install
from .show import cell_failed

OLDEST_TORCH = (2, 6)


def check_torch() -> None:
    """Raise NoTorch where a worker of this environment could not train; the package itself installs without torch."""
    if util.find_spec("torch") is None:
        raise NoTorch(pip_install())
    found = metadata.version("torch")
    numbers = tuple(int(word) for word in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST_TORCH:
        raise NoTorch(pip_install(), found)


def read_cell(shell: InteractiveShell, cell: str) -> CellNames:
    """What the cell reads and writes."""
    source = shell.transform_cell(cell)
    try:
        names = names_of(source)
    except SyntaxError as error:
        raise _syntax_error(shell, error, source) from None
    if line := _line_of_own_magic(source):
        raise MagicInCell(line + 1)
    try:
        check_names(names, _defined(shell))
    except NameNotDefined as error:
        error.line += 1
        raise
    return names


def visible(shell: InteractiveShell) -> dict[str, Any]:
    """The user's own names, without those that IPython puts there, or we."""
    its = shell.user_ns_hidden
    known = {name: value for name, value in shell.user_ns.items() if not hidden(name)}
    return {name: value for name, value in known.items() if its.get(name, its) is not value}


def _line_of_own_magic(source: str) -> int:
    """Where it says %gpufit, which the worker does not know; 0: nowhere."""
    for node in ast.walk(ast.parse(source)) if "gpufit" in source else ():
        match node:
            case ast.Call(
                func=ast.Attribute(attr="run_line_magic" | "run_cell_magic"), args=[ast.Constant("gpufit"), *_]
            ):
                return node.lineno
    return 0


def _syntax_error(shell: InteractiveShell, error: SyntaxError, source: str) -> Exception:
    if error.text is None and error.lineno is not None:  # the compiler, unlike the parser, leaves it out
        error.text = source.splitlines()[error.lineno - 1]
    error.lineno = (error.lineno or 0) + 1
    error.end_lineno = (error.end_lineno or 0) + 1
    error.filename = "the cell"
    lines = shell.SyntaxTB.structured_traceback(SyntaxError, error, None)
    return cell_failed(Failure("SyntaxError", str(error), tuple(lines)))


def _defined(shell: InteractiveShell) -> set[str]:
    """Every name that may have a value by the time the cell reads it: a function may bind one by `global`."""
    functions = [value for value in visible(shell).values() if isinstance(value, FunctionType)]
    return set(shell.user_ns).union(*(names_of_code(function.__code__) for function in functions))
