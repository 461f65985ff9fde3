"""The texts of functions that neither a cell nor an imported module defined: a file that `%run` ran, a text of exec().

Whoever is sent such a function finds no module whose file could be asked. So its text goes along, if it is at hand: its
file, or a text that the notebook itself still has, in a variable or in a cell, by which also a file may be named. That
it is the text is seen by compiling it: it must give this very code.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

from ..system.codes import RunText, codes_inside, name_of
from ..system.packages import is_installed
from ..system.unheard import unheard

_LARGEST = 2**20  # characters of a text
_FEWEST = 16


class RunTexts:
    """Those that the functions of one stream need, by names of their own."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self.found: dict[str, RunText] = {}
        self._namespace = namespace
        self._known: dict[str, set[CodeType]] = {}  # of those found, by the file's name
        self._without: set[str] = set()  # files with none

    def take(self, code: CodeType) -> None:
        filename = code.co_filename
        if filename in self._without or code in self._known.get(filename, ()) or is_installed(filename):
            return
        for text in self._candidates(filename):
            if code in (codes := codes_of(text, filename)):
                self.found[name_of(filename, text)] = filename, text
                self._known.setdefault(filename, set()).update(codes)
                return
        if filename not in self._known:
            self._without.add(filename)

    def _candidates(self, filename: str) -> Iterator[str]:
        if not filename.startswith("<"):
            yield from _short("".join(linecache.getlines(filename)))
            return
        for value in list(self._namespace.values()):
            if type(value) is str:
                yield from _short(value)
        for entry in list(linecache.cache.values()):
            if len(entry) == 4 and entry[1] is None:  # a cell
                for word in _words("".join(entry[2])):
                    yield from _short(word)
                    yield from _in_file(word)


@lru_cache(maxsize=64)
def codes_of(text: str, filename: str) -> frozenset[CodeType]:
    """The code of each function in a text; of one that is no Python there is none."""
    with unheard(), suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset(codes_inside(compile(text, filename, "exec", dont_inherit=True)))
    return frozenset()


def _short(text: str) -> Iterator[str]:
    if _FEWEST <= len(text) <= _LARGEST and ("def " in text or "lambda" in text):
        yield text


def _in_file(word: str) -> Iterator[str]:
    if 0 < len(word) < 512 and "\n" not in word and "." in word:
        with suppress(OSError, ValueError):
            path = Path(word).expanduser()
            if path.is_file() and path.stat().st_size <= _LARGEST:
                yield from _short(path.read_text("utf-8"))


@lru_cache(maxsize=256)
def _words(cell: str) -> tuple[str, ...]:
    """The texts that stand in a cell."""
    try:
        tree = ast.parse(cell)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple({one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and type(one.value) is str})
