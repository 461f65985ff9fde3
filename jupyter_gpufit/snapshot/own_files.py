"""Which files of modules are the user's own: those below the notebook's directory, but for what was installed there.

So is a file anywhere else that no environment and no folder of packages holds: of a package that is installed from a
directory of the user's (`pip install -e .`), or of a directory that was added to sys.path.
"""

from __future__ import annotations

import os
import sysconfig
from functools import lru_cache
from pathlib import Path

_INSTALLED = tuple({sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OURS = str(Path(__file__).parents[1]) + os.sep
_OF_PACKAGES = frozenset({"site-packages", "dist-packages", "node_modules"})
_OF_AN_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")  # stands at the top of one: of a venv, and of conda's


def is_own(file: str, homes: tuple[str, ...]) -> bool:
    """Whether it is in one of these directories, or elsewhere, and in nothing that was installed there."""
    if not file.endswith(".py") or file.startswith((*_INSTALLED, _OURS)):
        return False
    directory = os.path.dirname(file)
    return any(
        directory == home or (directory.startswith(home.rstrip(os.sep) + os.sep) and not _is_installed(home, directory))
        for home in (*homes, os.sep)
    )


def homes() -> tuple[str, ...]:
    """The notebook's directory, as it was and as it is."""
    found = {os.environ.get("PWD", "")}
    try:
        found.add(os.getcwd())
    except OSError:
        pass  # it was deleted
    return tuple(found - {"", os.sep})


def _has_packages(directory: str) -> bool:
    """Whether pip has put any there (`pip install --target`): it notes each beside it."""
    try:
        return any(name.endswith(".dist-info") for name in os.listdir(directory))
    except OSError:
        return False


@lru_cache(maxsize=4096)
def _is_installed(home: str, directory: str) -> bool:
    """Whether an environment, or a folder of packages, stands between the two."""
    while directory != home:
        name = os.path.basename(directory)
        if name in _OF_PACKAGES or name.startswith("."):
            return True
        if any(os.path.exists(os.path.join(directory, one)) for one in _OF_AN_ENVIRONMENT) or _has_packages(directory):
            return True
        directory = os.path.dirname(directory)
    return False
