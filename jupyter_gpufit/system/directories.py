"""Where this user's files live."""

from __future__ import annotations

import os
from pathlib import Path

from ..settings import Settings


def data_dir(settings: Settings) -> Path:
    """Where everything of this user's lives that outlasts a job."""
    data = settings.data or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "gpufit"
    )
    return Path(data)
