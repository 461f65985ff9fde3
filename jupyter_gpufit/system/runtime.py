"""Where this user's sockets and private lab live: a directory that nobody else can enter, and nobody else can take.

A name in /tmp that can be foretold can be made first by somebody else. Then it is a name that cannot be, remembered in
the user's own data directory, so that all of their processes come to the same one.
"""

from __future__ import annotations

import os
import pwd
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ..errors import StorageError
from ..settings import Settings
from .directories import data_dir
from .files import alone, write_whole

SHARED = "/tmp"


@dataclass(frozen=True)
class Runtime:
    """The directory, and what its user should know about it."""

    path: Path
    remark: str = ""


def runtime_of(settings: Settings) -> Runtime:
    """The directory, made if need be; only one that somebody chose is refused where it will not do."""
    if settings.runtime:
        path = Path(settings.runtime)
        if why := _made(path):
            raise StorageError(str(path), why, "GPUFIT_RUNTIME")
        return Runtime(path)
    given = os.environ.get("XDG_RUNTIME_DIR")
    usual = Path(given) / "gpufit" if given else Path(SHARED) / f"gpufit-{os.getuid()}"
    why = _made(usual)
    if not why:
        return Runtime(usual)
    other = _of_our_own(data_dir(settings))
    return Runtime(other, f"{usual} is not used, because {why}: your jobs' sockets are in {other}.")


def runtime_dir(settings: Settings) -> Path:
    """Where sockets live: a directory of this user's alone, made if need be."""
    return runtime_of(settings).path


def _made(path: Path) -> str:
    """Why this cannot be it, in the end; empty: it is there."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        pass  # of another kind: the look tells
    except OSError as error:
        return error.strerror or str(error)
    return _unsafe(path)


def _unsafe(path: Path) -> str:
    try:
        found = path.stat(follow_symlinks=False)
    except OSError as error:
        return error.strerror or str(error)
    if found.st_uid != os.getuid():
        return f"it belongs to {_owner(found.st_uid)}"
    if not stat.S_ISDIR(found.st_mode) or found.st_mode & 0o077:
        return "it is not a directory that only you can enter"
    return ""


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def _of_our_own(data: Path) -> Path:
    """One whose name nobody could foretell; the same each time, and another if that is cleaned away."""
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(data / "runtime.lock"):  # two of our processes may come here for the first time at once
            noted = data / "runtime"
            path = Path(noted.read_text()) if noted.exists() else None
            if path is None or not path.is_absolute() or _unsafe(path):
                path = Path(tempfile.mkdtemp(prefix="gpufit-", dir=SHARED))
                write_whole(noted, str(path))
            return path
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise StorageError(str(data), why, "GPUFIT_DATA") from error
