"""Who of the administrators did what, and what came of it: one line of JSON each, appended and never rewritten."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

LONGEST = 1 << 18  # bytes of the end that are read


@dataclass(frozen=True)
class AuditEntry:
    """One deed."""

    time: float  # seconds since 1970
    who: str  # as the hub calls them
    deed: str
    on: str  # the claim's or device's name for people
    id: str
    outcome: str  # what was said, or why it was refused


class AuditLog:
    """A file that its owner alone may read: root's, where the service runs as root."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, who: str, deed: str, on: str, id: str, outcome: str) -> None:
        """Raises OSError where it cannot be written: what nobody could look up later is not to be done."""
        line = json.dumps(asdict(AuditEntry(time.time(), who, deed, on, id, outcome))).encode() + b"\n"
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)  # one write: whole lines only
        finally:
            os.close(fd)

    def last(self, most: int) -> Sequence[AuditEntry]:
        """The latest first."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - LONGEST))
                lines = file.read().splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in reversed(lines):
            try:
                found.append(AuditEntry(**json.loads(line)))
            except (ValueError, TypeError):
                continue  # the rest of a line that was cut off
            if len(found) == most:
                break
        return found
