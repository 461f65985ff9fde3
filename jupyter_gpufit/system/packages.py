"""What is installed where Python finds its packages, as against the user's own modules."""

from __future__ import annotations

import os
import site
from contextlib import suppress

_FOLDERS = frozenset(("site-packages", "dist-packages"))


def is_installed(file: str) -> bool:
    """Whether a module's file is in a folder of packages."""
    return not _FOLDERS.isdisjoint(file.split(os.sep))


def stamp() -> list[tuple[str, int]]:
    """Changes with what is installed: what was imported before is the old."""
    found = []
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        with suppress(OSError):
            found.append((folder, os.stat(folder).st_mtime_ns))
    return found
