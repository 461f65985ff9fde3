"""Where this user's files and sockets live."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ..errors import StorageError
from ..settings import Settings


def data_dir(settings: Settings) -> Path:
    """Where everything of this user's lives that outlasts a job."""
    data = settings.data or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "gpufit"
    )
    return Path(data)


def runtime_dir(settings: Settings) -> Path:
    """Where sockets live: a directory of this user's alone, made if need be."""
    given = settings.runtime or os.environ.get("XDG_RUNTIME_DIR")
    path = Path(settings.runtime) if settings.runtime else Path(given or "/tmp") / _name(given)
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat(follow_symlinks=False)
    except OSError as error:
        raise StorageError(str(path), error.strerror or str(error), "GPUFIT_RUNTIME") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StorageError(str(path), "it is not a directory that only you can enter", "GPUFIT_RUNTIME")
    return path


def _name(given: str | None) -> str:
    return "gpufit" if given else f"gpufit-{os.getuid()}"
