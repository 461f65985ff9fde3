"""Texts that the user's code compares by `is`: over there, too, they are the very ones that its literals are.

`if layer is "conv2d"` is true by grace of Python, which keeps one object for all literals of a text. A pickle makes a
new one, and the code would go another way without a word. So where a source of the user's compares so, these texts
stand at the beginning of a stream as what the other process finds among its own. So does argparse's mark for "no
value", which a parser knows by its identity.

Not covered: two texts compared by their names alone, `a is b`, of which no source says what they are.
"""

from __future__ import annotations

import argparse
import functools
import linecache
import os
import re
import sys
from collections.abc import Iterator

from ..system.packages import file_of, is_of_the_user
from .modules import Here

# In a cell under the magic, which is a text itself, the quotes may stand behind a backslash.
_COMPARED = re.compile(r"""\bis\s+(?:not\s+)?\\?(['"])(\w{1,64})\\?\1""")
_OURS = f"{__name__.partition('.')[0]}."


def compared_by_identity() -> list[Here]:
    """Each text that a literal after an `is` has, in any cell or module of the user's."""
    found = {text for texts in (*_in_cells(), *_in_modules()) for text in texts}
    marks: list[Here] = [(argparse.SUPPRESS, suppressed, ())]
    return marks + [(sys.intern(text), interned, (text.encode(),)) for text in sorted(found)]


def interned(text: bytes) -> str:
    return sys.intern(text.decode())


def suppressed() -> str:
    return argparse.SUPPRESS


def _in_cells() -> Iterator[frozenset[str]]:
    for entry in list(linecache.cache.values()):
        if len(entry) == 4 and entry[1] is None:  # no file
            yield _in("".join(entry[2]))


def _in_modules() -> Iterator[frozenset[str]]:
    for name, module in list(sys.modules.items()):
        file = file_of(module)
        if is_of_the_user(file) and not name.startswith(_OURS):
            try:
                yield _in_file(file, os.stat(file).st_mtime_ns)
            except (OSError, UnicodeDecodeError):  # gone, or compiled code
                continue


@functools.cache  # in a bounded one that is walked in the same order each time nothing is ever found
def _in_file(file: str, time: int) -> frozenset[str]:
    with open(file, encoding="utf-8") as source:
        return _in(source.read())


@functools.lru_cache(maxsize=1024)
def _in(source: str) -> frozenset[str]:
    return frozenset(match[2] for match in _COMPARED.finditer(source)) if " is " in source else frozenset()
