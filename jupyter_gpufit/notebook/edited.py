"""The user's own modules whose files were edited since the notebook imported them.

A worker imports them as they are now, and the notebook still has what they were: what a cell does would differ.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container
from importlib.machinery import ModuleSpec
from pathlib import Path

from ..snapshot.modules import own_modules
from ..surroundings.holders import root
from ..surroundings.travel import watch

_Stamp = tuple[int, int]


class Imported:
    """Those of one notebook, as their files were when they were first seen; to be asked after each cell."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ModuleSpec | None, _Stamp | None]] = {}

    def look(self) -> None:
        for name, module in own_modules():
            if name not in self._seen or self._seen[name][0] is not module.__spec__:  # a reload gives it a new one
                self._seen[name] = module.__spec__, _stamp(str(module.__file__))

    def edited(self, graph: bytes, imports: Container[str]) -> list[str]:
        """Sentences about those that what travels mentions, or the cell imports, and those that these import."""
        self.look()
        files = {name: str(module.__file__) for name, module in own_modules()}
        reached = watch.reached(
            name
            for name in {root(name) for name in files}
            if name in imports or re.search(re.escape(name.encode()) + rb"(?!\w)", graph)
        )
        return [
            f"{Path(file).name} was edited since this notebook imported it: the training runs what it says now. To"
            f" have that in the notebook, too: import importlib, {root(name)}; importlib.reload({name})"
            for name, file in files.items()
            if root(name) in reached and _stamp(file) != self._seen[name][1]
        ]


def _stamp(file: str) -> _Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
