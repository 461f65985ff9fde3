"""All sentences that people can see, gathered from the source: to be read from top to bottom.

    python docs/words.py            # by file, each with its line
    python docs/words.py peak       # those with a word

A sentence is a text of three words or more that is no docstring, one of which no sentence does without: names of
operators, columns and cards are none. What is filled in later stands in braces.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]
PYTHON = HERE / "jupyter_gpufit"
PANEL = HERE / "labextension" / "src"
LEAST = 3  # words
SMALL = frozenset(  # of a sentence
    "a an and are as at be but by cannot does for from has have if in is it its no not of on one or so than that the"
    " their them there they this to was were what when where which who with without you your can others still says too"
    " left failed little out".split()
)
_QUOTED = re.compile(r"'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`")
_COMMENT = re.compile(r"/\*.*?\*/|(?<!:)//[^\n]*", re.DOTALL)


class Sentence(NamedTuple):
    """One text of the source."""

    file: str
    line: int
    text: str


def sentences() -> Iterator[Sentence]:
    """All of them: the package's, and the panel's."""
    for path in sorted(PYTHON.rglob("*.py")):
        if "_labextension" not in path.parts:
            for line, text in _of_python(path.read_text()):
                yield Sentence(str(path.relative_to(HERE)), line, text)
    for path in sorted([*PANEL.rglob("*.ts"), *PANEL.rglob("*.tsx")]):
        for line, text in _of_typescript(path.read_text()):
            yield Sentence(str(path.relative_to(HERE)), line, text)


def _of_python(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)  # a docstring
        if isinstance(node, ast.JoinedStr):
            skipped |= set(ast.walk(node)) - {node}
        if isinstance(node, ast.Assert) and node.msg is not None:
            skipped |= set(ast.walk(node.msg))
    for node in ast.walk(tree):
        if node not in skipped and (text := _text(node)) and _is_sentence(text):
            yield node.lineno, " ".join(text.split())  # type: ignore[attr-defined]


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else str(part.value)  # type: ignore[attr-defined]
            for part in node.values
        )
    return ""


def _of_typescript(source: str) -> Iterator[tuple[int, str]]:
    bare = _COMMENT.sub(lambda found: "\n" * found[0].count("\n"), source)
    for found in _QUOTED.finditer(bare):
        text = next(part for part in found.groups() if part is not None) if any(found.groups()) else ""
        if _is_sentence(text):
            yield bare.count("\n", 0, found.start()) + 1, " ".join(text.split())


def _is_sentence(text: str) -> bool:
    words = re.sub(r"\{.*?\}", " ", text)
    plain = re.findall(r"(?<![\w./<-])[A-Za-z][a-z']*(?![\w/>=(])", words)
    if SMALL.isdisjoint(word.lower() for word in plain) or words.lstrip().startswith(("SELECT ", "INSERT ", "CREATE ")):
        return False
    return len(plain) >= LEAST and not re.search(r"[\\^$]|\(\?|</|px;|://", words)


def main() -> None:
    wanted, file = sys.argv[1] if len(sys.argv) > 1 else "", ""
    for sentence in sentences():
        if wanted.lower() in sentence.text.lower():
            if sentence.file != file:
                file = sentence.file
                print(f"\n## {file}\n")  # noqa: T201 - a script prints
            print(f"{sentence.line}: {sentence.text}")  # noqa: T201


if __name__ == "__main__":
    main()
