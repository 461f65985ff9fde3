"""The text of cells whose functions travel, so that a traceback or `inspect.getsource` shows it at the other end.

A cell is no file there. Python and IPython look for its text in `linecache`, and IPython keeps its number beside.
"""

from __future__ import annotations

import linecache
import sys
from typing import Any, TypeAlias

Source: TypeAlias = tuple[list[str], int | None]  # the lines, and the number of the cell if it is one


def source_of(filename: str) -> Source | None:
    """The text of a cell; None for a file, which the other end can read itself."""
    entry = linecache.cache.get(filename)
    if entry is None or len(entry) != 4 or entry[1] is not None:
        return None
    return entry[2], _cell_numbers().get(filename)


def make_known(sources: dict[str, Source]) -> None:
    """Let the lines of these cells be found, unless they are this process's own."""
    for filename, (lines, number) in sources.items():
        if filename in linecache.cache:
            continue
        # Without a time: linecache.checkcache then takes it for something that never was a file, and keeps it.
        linecache.cache[filename] = (sum(map(len, lines)), None, lines, filename)
        if number is not None:
            _cell_numbers()[filename] = number


def _cell_numbers() -> dict[str, int]:
    """IPython's record of them, if this is a shell: without it a traceback says File <ipython-input-...>."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    found: dict[str, int] = getattr(getattr(shell, "compile", None), "_filename_map", {})
    return found
