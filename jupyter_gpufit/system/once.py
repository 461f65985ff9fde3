"""What need be said once on a machine: not in each kernel, and not at every run in a terminal."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from itertools import accumulate

from ..errors import BadSetting
from ..settings import Settings
from .directories import data_dir
from .files import read_small, write_whole

FORMAT = 1
MOST = 100_000  # bytes of the file, for which what was said longest ago is said again


def is_news(settings: Settings, text: str) -> bool:
    """Whether this user was not told it on this machine; by that, they are. Where nothing can be noted, it is news."""
    try:
        path = data_dir(settings) / "told.jsonl"
    except BadSetting:  # a user without a home
        return True
    line = json.dumps({"format": FORMAT, "host": socket.gethostname(), "text": text})
    told: list[str] = []
    with suppress(OSError, ValueError):
        told = read_small(path).splitlines()
    if line in told:
        return False
    if len(line) >= MOST:  # it would drive out all the others
        return True
    told.append(line)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, "".join(_latest(told)))
    return True


def _latest(lines: list[str]) -> list[str]:
    ends = accumulate(len(line) + 1 for line in reversed(lines))
    count = sum(1 for end in ends if end <= MOST)
    return [f"{line}\n" for line in lines[len(lines) - count :]]
