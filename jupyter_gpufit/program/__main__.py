"""`python -m jupyter_gpufit.program cell.py`: shows a cell, and the functions in it, in the forms in which they run.

Each has two: the running form, which stops at its safe points, and the entering form, which begins at the one where it
was left. Earlier cells may be given first, in files of their own; the last file is the cell.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .reading.calls import Names, bindings_of, names_of
from .rewriting.source import Source
from .rewriting.units import Shared, cell_form, entering_form, function_stops, running_form


def shown(texts: Sequence[str]) -> Iterator[str]:
    """The forms of the last text, and of the functions in it and in those before."""
    trees = [ast.parse(text) for text in texts]
    names = names_of(bindings_of(node for tree in trees for node in ast.walk(tree)))
    for number, tree in enumerate(trees):
        yield from _functions(tree, f"<cell {number}>", names)
    for entering in (False, True):
        made, _ = cell_form(ast.parse(texts[-1]), "<cell>", names, entering=entering)
        yield _headed("the cell", made, entering=entering)


def _functions(tree: ast.Module, filename: str, names: Names) -> Iterator[str]:
    for one in Source(filename, tree).definitions:
        if one.resumable and function_stops(one, names):
            for form, entering in ((running_form, False), (entering_form, True)):
                made, _ = form(one, f"{filename}:{one.qualname}", filename, names, Shared())
                yield _headed(f"{one.qualname}()", made, entering=entering)


def _headed(what: str, made: ast.AST, *, entering: bool) -> str:
    how = "entered again where it was left" if entering else "as it runs"
    return f"# {what}, {how}\n{ast.unparse(made)}\n"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(f"usage: python -m {__package__} [EARLIER.py ...] CELL.py")
    try:
        sys.stdout.write("\n".join(shown([Path(name).read_text() for name in sys.argv[1:]])))
    except (OSError, SyntaxError) as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
