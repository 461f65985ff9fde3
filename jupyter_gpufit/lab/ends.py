"""When a holder expects to end, by its own word: a note of its own beside its claim, which others read for their turn.

A note is a file e.<uid>.<the claim's nonce>.<nonce> of the claim's owner; its text is one line of JSON, written over in
place. Nothing is decided by it: a wrong one makes somebody's expectation wrong, and no claim or turn.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .about_claims import forget_ours, nonce, read_written_by
from .record import Claim

FORMAT = 1
LENGTH = 256  # bytes of a note: always the same, so that nobody reads one half written over
MOST_LOOKED_AT = 8  # files about one claim: somebody may have put there as many as they like
_NAME = re.compile(r"e\.([0-9]{1,10})\.([0-9a-f]{16})\.[0-9a-f]{8}")

LEAST_LOOKS = 5  # before anything is foreseen
SLACK = 0.05  # of what is left, on both sides: a pace is known so well and no better
BEGINNING = 0.25  # more, as long as next to nothing of the whole was seen: what comes once an epoch is still to come
CLOSING = 2.0  # seconds; what comes after the last step has no known length
NEWS = 0.02  # of what is left: by less, a note is not written again


@dataclass(frozen=True)
class End:
    """A stretch of time in which a claim is expected to end."""

    earliest: float  # seconds since 1970
    latest: float

    def is_news(self, before: End, now: float) -> bool:
        """Does it say something else than the one before?"""
        most = max(1.0, NEWS * (self.latest - now))
        return abs(self.earliest - before.earliest) > most or abs(self.latest - before.latest) > most


@dataclass
class Forecast:
    """From how long is left, as it was reckoned at each look, to a range that its own past bears out. Pure.

    What it foresaw over the later half of the time is the measure: a pace that wandered makes the range wide.
    """

    _since: float = 0.0  # of the first look
    _foreseen: deque[tuple[float, float]] = field(default_factory=deque)  # time of the look, end; since 1970

    def take(self, now: float, left: float) -> End | None:
        """Take in how many seconds are left; None as long as too little was seen."""
        if not self._foreseen:
            self._since = now
        seen = now - self._since
        self._foreseen.append((now, now + left))
        while len(self._foreseen) > LEAST_LOOKS and self._foreseen[0][0] < now - max(30.0, seen / 2):
            self._foreseen.popleft()
        if len(self._foreseen) < LEAST_LOOKS:
            return None
        ends = [end for _, end in self._foreseen]
        slack = (SLACK + BEGINNING * left / (left + seen)) * left
        return End(max(now, min(ends) - slack), max(ends) + slack + CLOSING)

    def forget(self) -> None:
        """What was foreseen holds no more."""
        self._foreseen.clear()


@dataclass
class EndNote:
    """Our own note about one claim; it is gone with `drop`, and counts no longer than the claim."""

    lab: Path
    claim: str  # its id
    told: End | None = None
    _path: Path | None = None
    _fd: int = -1

    def tell(self, end: End | None, now: float) -> None:
        """Let the others know; None: nothing is known any more. What cannot be written is left unsaid."""
        if end is None:
            self.drop()
        elif self.told is None or end.is_news(self.told, now):
            with suppress(OSError):  # the lab is full, or gone: no reason to end a training
                self._write(end)

    def drop(self) -> None:
        """Take it back; safe to repeat."""
        fd, self._fd, self.told = self._fd, -1, None
        if fd >= 0:
            os.close(fd)
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()
            self._path = None

    def _write(self, end: End) -> None:
        record = {"format": FORMAT, "claim": self.claim, "earliest": end.earliest, "latest": end.latest}
        text = json.dumps(record).encode().ljust(LENGTH - 1) + b"\n"
        if self._fd < 0:
            path = self.lab / f"e.{os.geteuid()}.{nonce(self.claim)}.{secrets.token_hex(4)}"
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
            self._path = path
            os.fchmod(self._fd, 0o644)  # against the umask
        # The file stays open: closing it would be an event that wakes all who wait.
        os.pwrite(self._fd, text, 0)
        self.told = end


def read_ends(lab: Path, claims: Iterable[Claim]) -> dict[str, End]:
    """When these claims are expected to end, by the claim's id; of those whose owners say so."""
    wanted = {nonce(claim.id): claim for claim in claims}
    found: dict[str, End] = {}
    looked: dict[str, int] = {}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name) if name.startswith("e.") else None
        claim = wanted.get(match[2]) if match else None
        if match is None or claim is None or claim.id in found or int(match[1]) != claim.uid:
            continue
        looked[claim.id] = looked.get(claim.id, 0) + 1
        if looked[claim.id] <= MOST_LOOKED_AT and (end := _read(lab, name, claim)) is not None:
            found[claim.id] = end
    return found


def forget_old_ends(lab: Path) -> None:
    """Remove our own notes about claims that are no more."""
    forget_ours(lab, _NAME)


def _read(lab: Path, name: str, claim: Claim) -> End | None:
    """The end in a note; None for what the claim's owner did not write about it."""
    if (written := read_written_by(claim.uid, lab / name, LENGTH)) is None:
        return None
    try:
        record = json.loads(written[0])
        end = End(float(record["earliest"]), float(record["latest"]))
        return end if record["claim"] == claim.id and 0 <= end.earliest <= end.latest < 1e11 else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None
