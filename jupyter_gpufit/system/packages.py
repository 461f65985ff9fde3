"""What is installed where Python finds its packages, as against the user's own modules."""

from __future__ import annotations

import os
import site
import sys
from contextlib import suppress
from functools import cache
from typing import Any

_FOLDERS = frozenset(("site-packages", "dist-packages"))
_PYTHONS = tuple({os.path.join(one, "lib") + os.sep for one in (sys.prefix, sys.base_prefix)})


def stated(module: object, name: str) -> Any:
    """What a module's own dictionary has by a name: the `__getattr__` of a lazy one imports, or refuses to be asked."""
    try:
        own = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return None
    return own.get(name) if type(own) is dict else None


def file_of(module: object) -> str:
    """Empty where it says none."""
    file = stated(module, "__file__")
    return file if isinstance(file, str) else ""


def is_installed(file: str) -> bool:
    """Whether a module's file is in a folder of packages."""
    return not _FOLDERS.isdisjoint(file.split(os.sep))


@cache  # of thousands of modules, each time that a cell starts or is saved
def is_of_the_user(file: str) -> bool:
    """Whether a module's file is neither installed nor Python's; `torch.ops` says that its file is "_ops.py"."""
    return os.path.isabs(file) and not is_installed(file) and not file.startswith(_PYTHONS)


def stamp() -> list[tuple[str, int]]:
    """Changes with what is installed: what was imported before is the old."""
    found = []
    for folder in [*site.getsitepackages(), site.getusersitepackages()]:
        with suppress(OSError):
            found.append((folder, os.stat(folder).st_mtime_ns))
    return found
