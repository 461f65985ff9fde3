"""What happened to a holder that is worth counting, as lines in its user's own record of use (see lab/usage.py).

A reader of uses passes them over. They are for figures about the whole lab: nobody's turn rests on them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ..system.users import user_name
from .usage import LONGEST, append, open_uses

What = Literal["checkpoint", "turn", "idle", "order"]
WHATS: tuple[What, ...] = get_args(What)


@dataclass(frozen=True)
class Happening:
    """A checkpoint that became durable; or a job that was saved and left its device, and why."""

    user: str
    what: What
    seconds: float = 0.0  # of a checkpoint: from the safe point until it was durable
    bytes: int = 0


def note_happening(lab: Path, what: What, *, seconds: float = 0.0, bytes: int = 0) -> None:
    """Write it down; a lab that is full or gone is no reason to end a training."""
    with suppress(OSError):
        append(lab, {"format": 1, "happened": what, "seconds": round(seconds, 3), "bytes": bytes})


@dataclass
class HappeningReader:
    """Reads again and again, and tells only what is new since its first look."""

    lab: Path
    _read: dict[tuple[str, int], int] = field(default_factory=dict)  # by name and inode: bytes
    _first: bool = True

    def new(self) -> tuple[Happening, ...]:
        found: list[Happening] = []
        read: dict[tuple[str, int], int] = {}
        for name, uid, fd in open_uses(self.lab):
            try:
                about = os.fstat(fd)
                key, end = (name, about.st_ino), about.st_size
                # A file that came since, or was shortened, is a new one: of the latter all was told.
                begin = end if self._first else self._read.get(key, 0 if self._is_new(name) else end)
                begin = max(begin, end - LONGEST)
                text = os.pread(fd, end - begin, begin) if end > begin else b""
                whole = text[: text.rfind(b"\n") + 1]
                read[key] = begin + len(whole)
                found += _happened(user_name(uid), whole)
            finally:
                os.close(fd)
        self._read, self._first = read, False
        return tuple(found)

    def _is_new(self, name: str) -> bool:
        return all(known != name for known, _ in self._read)


def _happened(user: str, text: bytes) -> Iterator[Happening]:
    for line in text.splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            record: Mapping[str, Any] = json.loads(line)
            what, seconds, size = record["happened"], float(record["seconds"]), int(record["bytes"])
            if what in WHATS and 0 <= seconds < 1e9 and 0 <= size < 1 << 60:
                yield Happening(user, what, seconds, size)
