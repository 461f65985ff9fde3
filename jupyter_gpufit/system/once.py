"""What need be said once on a machine: not in each kernel, and not at every run in a terminal."""

from __future__ import annotations

import json
import socket
from contextlib import suppress

from ..errors import BadSetting
from ..settings import Settings
from .directories import data_dir
from .files import for_its_owner, read_small

FORMAT = 1


def is_news(settings: Settings, text: str) -> bool:
    """Whether this user was not told it on this machine; by that, they are. Where nothing can be noted, it is news."""
    try:
        path = data_dir(settings) / "told.jsonl"
    except BadSetting:  # a user without a home
        return True
    line = json.dumps({"format": FORMAT, "host": socket.gethostname(), "text": text})
    with suppress(OSError, ValueError):
        if line in read_small(path).splitlines():
            return False
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(path, "a", opener=for_its_owner) as file:
            file.write(f"{line}\n")
    return True
