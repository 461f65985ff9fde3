"""How a claim stands, by its holder's own word: whether it can be given back in turn, is about to be, or lies idle.

A word is a file s.<uid>.<the claim's nonce>.<nonce> of the claim's owner, made anew when it changes, which wakes those
who wait. It says nothing about anybody else's claim. Whoever lies in it keeps what they could keep without it, or gives
back what nobody could take: see docs/trust.md.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from .about_claims import forget_ours, nonce, read_written_by
from .record import Claim

FORMAT = 1
LONGEST = 1 << 10  # bytes
MOST_LOOKED_AT = 8  # files about one claim: somebody may have put there as many as they like
_NAME = re.compile(r"s\.([0-9]{1,10})\.([0-9a-f]{16})\.[0-9a-f]{8}")


@dataclass(frozen=True)
class Standing:
    """What a holder says of itself; times in seconds since 1970."""

    yields: bool = True  # it can be saved, as far as is known, and gives its devices back when its turn is over
    leaves: float | None = None  # when it will
    idle: float | None = None  # since when it has computed nothing
    gives: bool = False  # devices above its least to who waits, see surplus


@dataclass
class StandingFile:
    """Our own word about our claim; it is gone with `drop`, and counts no longer than the claim."""

    lab: Path
    claim: str = ""  # its id; a claim that becomes smaller has another
    told: Standing | None = None
    _path: Path | None = None

    def tell(self, claim: str, standing: Standing) -> None:
        """Let the others know."""
        if (claim, standing) == (self.claim, self.told):
            return
        old, self._path = self._path, None
        with suppress(OSError):  # the lab is full, or gone: no reason to end a training
            self._write(claim, standing)
        if old is not None:
            with suppress(OSError):
                old.unlink()

    def drop(self) -> None:
        """Take it back; safe to repeat."""
        path, self._path, self.told = self._path, None, None
        if path is not None:
            with suppress(OSError):
                path.unlink()

    def _write(self, claim: str, standing: Standing) -> None:
        record = {"format": FORMAT, "claim": claim, **asdict(standing)}
        name = f"{os.geteuid()}.{nonce(claim)}.{secrets.token_hex(4)}"
        aside, path = self.lab / f".s.{name}", self.lab / f"s.{name}"
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            os.write(fd, json.dumps(record).encode())
            os.fchmod(fd, 0o644)  # against the umask
        finally:
            os.close(fd)
        os.rename(aside, path)
        self.claim, self.told, self._path = claim, standing, path


def read_standings(lab: Path, claims: Iterable[Claim]) -> dict[str, Standing]:
    """What the holders of these claims say of them, by the claim's id."""
    wanted = {nonce(claim.id): claim for claim in claims}
    found: dict[str, tuple[int, Standing]] = {}
    looked: dict[str, int] = {}
    for name in os.listdir(lab):
        match = _NAME.fullmatch(name) if name.startswith("s.") else None
        claim = wanted.get(match[2]) if match else None
        if match is None or claim is None or int(match[1]) != claim.uid:
            continue
        looked[claim.id] = looked.get(claim.id, 0) + 1
        if looked[claim.id] <= MOST_LOOKED_AT and (word := _read(lab, name, claim)) is not None:
            found[claim.id] = max(found.get(claim.id, word), word, key=lambda one: one[0])  # the latest counts
    return {id: standing for id, (_, standing) in found.items()}


def forget_old_standings(lab: Path) -> None:
    """Remove our own words about claims that are no more."""
    forget_ours(lab, _NAME)


def _read(lab: Path, name: str, claim: Claim) -> tuple[int, Standing] | None:
    """The time of a word and what it says; None for what the claim's owner did not write about it."""
    if (written := read_written_by(claim.uid, lab / name, LONGEST)) is None:
        return None
    try:
        record = json.loads(written[0])
        times = _time(record["leaves"]), _time(record["idle"])
        word = Standing(record["yields"] is True, *times, gives=record.get("gives") is True)
        return (written[1].st_ctime_ns, word) if record["claim"] == claim.id else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        return None


def _time(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e11:  # NaN compares false
        raise ValueError(f"{str(value)[:50]} is not a time")
    return float(value)


NOTHING = Standing(yields=False)  # of a holder that says nothing: a command, a deployed model, an earlier version
