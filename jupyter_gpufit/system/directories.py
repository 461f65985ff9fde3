"""Where this user's files and sockets live."""

from __future__ import annotations

import os
from pathlib import Path

from ..settings import Settings
from .runtime import runtime_of


def data_dir(settings: Settings) -> Path:
    """Where everything of this user's lives that outlasts a job."""
    data = settings.data or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "gpufit"
    )
    return Path(data)


def runtime_dir(settings: Settings) -> Path:
    """Where sockets live: a directory of this user's alone, made if need be."""
    return runtime_of(settings).path
