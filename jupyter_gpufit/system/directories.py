"""Where this user's files live."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import BadSetting
from ..settings import Settings


def home(below: str) -> Path | None:
    """A place in our user's home; None in a container whose user is a number and nothing else."""
    path = Path(os.path.expanduser("~"), below)
    return path if path.is_absolute() else None


def data_dir(settings: Settings) -> Path:
    """Where everything of this user's lives that outlasts a job."""
    if settings.data:
        return Path(settings.data)
    place = os.environ.get("XDG_DATA_HOME") or home(".local/share")
    if place is None:
        raise BadSetting("data", "~/.local/share", "this user has no home. Set HOME, or GPUFIT_DATA to a directory.")
    return Path(place, "gpufit")
