"""The user's own modules whose files were edited since the notebook imported them.

A worker imports them as they are now, and the notebook still has what they were: what a cell does would differ.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Container
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from ..snapshot.modules import own_modules
from ..surroundings.holders import root
from ..surroundings.travel import watch

_Stamp = tuple[float, int]


class Imported:
    """Those of one notebook, as their files were when they were first seen; to be asked after each cell."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[ModuleSpec | None, _Stamp | None]] = {}

    def look(self) -> None:
        for name, module in own_modules():
            stamp = _stamp(str(module.__file__))
            # A reload gives it a new one; but `%autoreload` may change what is there.
            is_new = name not in self._seen or self._seen[name][0] is not module.__spec__
            if is_new or (stamp is not None and _autoreloaded(name) == stamp):
                self._seen[name] = module.__spec__, stamp

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


def _autoreloaded(name: str) -> _Stamp | None:
    """The file of a module as `%autoreload` has it, where that is on and went well."""
    shell: Any = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    magics = shell and shell.magics_manager.registry.get("AutoreloadMagics")
    reloader = getattr(magics, "_reloader", None)
    module = sys.modules.get(name)
    if reloader is None or not reloader.enabled or module is None:
        return None
    file, time = reloader.filename_and_mtime(module)
    stamp = _stamp(file) if file and reloader.modules_mtimes.get(name) == time != reloader.failed.get(file) else None
    return stamp if stamp is not None and stamp[0] == time else None


def _stamp(file: str) -> _Stamp | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime, found.st_size
