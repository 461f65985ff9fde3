"""What users owe for turns that they let go, from one job of ours to the next.

Each user remembers it for their own jobs, in their own record of use, and reads no one else's: what somebody says of
others is no evidence.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .stalled import FORGIVEN, Passing
from .usage import append, noted, own_text

LATEST = 64 << 10  # bytes of our record that are looked at
PAUSE = 10.0  # seconds between two notes


@dataclass
class DebtMemory:
    """Brings into a job what another one knew, and notes what it learns."""

    lab: Path
    loaded: bool = False
    noted: float = 0.0  # seconds since 1970
    known: set[int] = field(default_factory=set)  # who was written down as a debtor

    def load(self, passing: Passing) -> None:
        """Once, and only when somebody else is before us: most jobs start at once."""
        if not self.loaded:
            self.loaded = True
            with suppress(OSError):
                passing.remember(parse(own_text(self.lab, LATEST), time.time()))
            self.known, self.noted = set(passing.debtors()), time.time()

    def note(self, owed: Mapping[int, float]) -> None:
        """Write down who owes what."""
        heavy = {uid: seconds for uid, seconds in owed.items() if uid != os.geteuid()}
        now = time.time()
        if heavy.keys() - self.known or (heavy and not 0 <= now - self.noted < PAUSE):
            self.noted, self.known = now, set(heavy)
            with suppress(OSError):
                append(self.lab, {"format": 1, "owed": {str(uid): round(s, 2) for uid, s in heavy.items()}, "at": now})


def parse(text: bytes, now: float) -> dict[int, float]:
    """What our record says that users owe by now."""

    def read(owed: dict[str, float], age: float) -> dict[int, float]:
        return {int(uid): float(seconds) - age / FORGIVEN for uid, seconds in owed.items()}

    owed: dict[int, float] = {}
    for one in noted(text, "owed", now, read):
        owed |= one
    return {uid: seconds for uid, seconds in owed.items() if seconds > 0}
