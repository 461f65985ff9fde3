"""Which names of the notebook a cell reads and binds, found without running it.

Attributes and what library code does are not looked into.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from types import CodeType

from ...errors import NameNotDefined
from ...system.unheard import unheard
from .certain import WHOLE_NAMESPACE, certain_reads
from .uses import replaced_names, uses


@dataclass(frozen=True)
class CellNames:
    """The notebook's names in one cell, each with the first line that uses it so."""

    reads: Mapping[str, int]  # may be read, builtins included, wherever in the cell
    writes: Mapping[str, int]  # may be bound or deleted
    needs: Mapping[str, int]  # of the reads, those that may see a value from before the cell
    certain: Mapping[str, int]  # of the needs, those that every run comes to
    imports: frozenset[str]  # packages
    magics: frozenset[str]  # all that its texts could mean by %name or %%name, and the shell's by their names
    dynamic: bool  # runs text, or touches the namespace as a whole


def names_of(source: str) -> CellNames:
    """Read a cell that has been through IPython's input transformer; a SyntaxError is the caller's to show."""
    tree, module = _compiled(source)
    found = list(uses(module))
    replaced = replaced_names(module)
    reads = [use for use in found if use.reads]
    writes = _first_lines((use.name, use.line) for use in found if use.writes)
    names_read = {use.name for use in reads}
    return CellNames(
        reads=_first_lines((use.name, use.line) for use in reads),
        writes=writes,
        needs=_first_lines((use.name, use.line) for use in reads if use.name not in replaced.get(use.offset, ())),
        certain=certain_reads(tree, writes),
        imports=frozenset(_imported(tree)),
        magics=frozenset(_magics(tree)),
        dynamic=not names_read.isdisjoint(WHOLE_NAMESPACE) or any(map(_is_bare_vars, ast.walk(tree))),
    )


@lru_cache(maxsize=4096)
def names_of_code(code: CodeType) -> frozenset[str]:
    """The global names, not attributes, that a function's code and all code inside it reads or binds."""
    return frozenset(use.name for use in uses(code))


def check_names(names: CellNames, defined: Collection[str]) -> None:
    """Refuse a cell that is bound to meet an undefined name; in any doubt, let it run.

    `defined` is the notebook's names, and with them whatever its functions may bind by `global`.
    """
    known = {*defined, *dir(builtins), *_ALWAYS_DEFINED}  # an earlier cell may have added to the builtins
    for name, line in sorted(names.certain.items(), key=lambda item: item[1]):
        # IPython keeps names of its own behind an underscore: _, _12, _i, __name__.
        if name not in known and not name.startswith("_"):
            candidates = sorted(word for word in {*known, *names.writes} - {name} if not word.startswith("_"))
            raise NameNotDefined(name, line, tuple(get_close_matches(name, candidates, n=2)))


_MAGIC = re.compile(r"%([^\W\d]\w*)")  # in the body of a cell's own magic, which is a text
_ALWAYS_DEFINED = frozenset({"display", "get_ipython", "exit", "quit", "In", "Out"})


def _compiled(source: str) -> tuple[ast.Module, CodeType]:
    with unheard():  # the cell's own warnings are shown once, when it runs
        tree = ast.parse(source)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        # Without dont_inherit, this module's future imports would hold for the cell.
        return tree, compile(tree, "<cell>", "exec", flags=flags, dont_inherit=True, optimize=0)


def imported_by(text: str) -> set[str]:
    """The packages that a text imports."""
    return set(_imported(ast.parse(text)))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0]


def _magics(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
            yield from _MAGIC.findall(node.value)


def _is_bare_vars(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "vars" and not node.args


def _first_lines(uses: Iterable[tuple[str, int]]) -> dict[str, int]:
    first: dict[str, int] = {}
    for name, line in uses:
        first[name] = min(line, first.get(name, line))
    return first
