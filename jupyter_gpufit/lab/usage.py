"""What each user has used, in files of their own that everybody can read.

Honest users' fairness and the history rest on it. It is auditable and not tamper-proof: a user can shorten their own
past (nobody else's). A job that was killed counts up to its last mark.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from . import digest
from .order import decayed_seconds
from .policy import DAY
from .record import MOST_DEVICES, Claim, word

Noted = TypeVar("Noted")

FORMAT = 1
LONGEST = 4 * digest.LARGEST  # bytes of one user that are read: thousands of jobs; an honest record is shorter
MOST_FILES = 16  # of one user; honest ones have one, or two that began at once
MOST_USES = 10_000  # of one record that are remembered: more than that many bytes can tell of
_NAME = re.compile(r"u\.([0-9]{1,10})\.([0-9a-f]{16})")
_SAFE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True)
class Use:
    """A stretch of time in which a claim was held."""

    claim: str
    start: float  # seconds since 1970
    end: float
    share: float  # devices: 0.5 is half of one
    devices: tuple[str, ...] = ()  # UUIDs


def note_use(lab: Path, claim: Claim, until: float) -> None:
    """Write down that the claim was held until then; the last such line of a claim counts."""
    line = {
        "format": FORMAT,
        "claim": claim.id,
        "start": claim.since / 1e9,
        "until": until,
        "share": claim.hold.share,
        "devices": claim.hold.devices,
        "bytes": claim.hold.bytes,
        "job": claim.request.job_id,
        "name": claim.request.name,
        "label": claim.request.label,
    }
    append(lab, line)


def append(lab: Path, line: Mapping[str, object]) -> None:
    """Write a line into our own record."""
    text = json.dumps(line).encode() + b"\n"
    there = False
    while not there:
        name, fd = _own_file(lab)
        try:
            os.write(fd, text)  # one write: several jobs of one user append to this file
            found = os.fstat(fd)
        finally:
            os.close(fd)
        there = found.st_nlink > 0  # else another job of ours has just put a shorter one in its place
    if found.st_size > digest.LARGEST:
        with suppress(OSError):
            digest.shorten(lab, name)


def open_uses(lab: Path) -> Iterator[tuple[str, int, int]]:
    """Everybody's records: name, uid, and a descriptor to be closed."""
    for name in _names(lab):
        fd = _open(lab, name, os.O_RDONLY)
        if fd is not None:
            yield name, _uid(name), fd


def own_text(lab: Path, most: int) -> bytes:
    """The end of our own record."""
    for name in _names(lab):
        if name.startswith(f"u.{os.geteuid()}.") and (fd := _open(lab, name, os.O_RDONLY)) is not None:
            try:
                return os.pread(fd, most, max(0, os.fstat(fd).st_size - most))
            finally:
                os.close(fd)
    return b""


def noted(text: bytes, about: str, now: float, read: Callable[[Any, float], Noted]) -> list[Noted]:
    """What our own record says of something, oldest first: `read` of each note and its age in seconds."""
    found = []
    for line in text.splitlines():
        if f'"{about}"'.encode() in line:
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                record = json.loads(line)
                found.append(read(record[about], max(0.0, now - float(record["at"]))))
    return found


def _own_file(lab: Path) -> tuple[str, int]:
    # Its name cannot be foretold: somebody else could have put a file or a FIFO there before us.
    for name in _names(lab):
        if name.startswith(f"u.{os.geteuid()}."):
            fd = _open(lab, name, os.O_WRONLY | os.O_APPEND)
            if fd is not None:
                return name, fd
    name = f"u.{os.geteuid()}.{secrets.token_hex(8)}"
    fd = os.open(lab / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | _SAFE, 0o644)
    os.fchmod(fd, 0o644)  # against the umask
    return name, fd


def _names(lab: Path) -> list[str]:
    return sorted(name for name in os.listdir(lab) if name.startswith("u.") and _NAME.fullmatch(name))


def _open(lab: Path, name: str, how: int) -> int | None:
    """Open a file of use; None for what its user did not make as one (a use that is not read harms nobody)."""
    try:
        fd = os.open(f"{lab}/{name}", how | _SAFE)
    except OSError:
        return None
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode) and _uid(name) == found.st_uid and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return fd
    os.close(fd)
    return None


def _records(lab: Path) -> Iterator[tuple[str, int, int]]:
    """Everybody's records: name, descriptor, and how many bytes of its end count.

    A user who makes many has no more read of them than of one, the same by everybody who looks.
    """
    left: dict[int, int] = {}
    for name in _names(lab):
        uid = _uid(name)
        most = left.get(uid, LONGEST)
        if most > 0 and (fd := _open(lab, name, os.O_RDONLY)) is not None:
            try:
                left[uid] = most - max(os.fstat(fd).st_size, LONGEST // MOST_FILES)
                yield name, fd, most
            finally:
                os.close(fd)


def _uid(name: str) -> int:
    return int(name.split(".")[1])


@dataclass
class _Account:
    """A file's uses, summed up as of one moment: what time does to the sum is one factor."""

    inode: int
    half_life: float
    moment: float
    read: int = 0  # bytes
    total: float = 0.0  # device-seconds
    uses: dict[str, Use] = field(default_factory=dict)  # by claim: a later line replaces an earlier one

    def at(self, moment: float, without: Iterable[str] = ()) -> float:
        total = self.total - sum(self._weight(self.uses.get(claim)) for claim in without)
        return float(total * 2.0 ** ((self.moment - moment) / self.half_life))

    def move_to(self, moment: float) -> None:
        self.total, self.moment = self.at(moment), moment

    def add(self, use: Use) -> None:
        self.total += self._weight(use) - self._weight(self.uses.pop(use.claim, None))
        self.uses[use.claim] = use
        if len(self.uses) > MOST_USES:  # who looks for the first time does not know them either
            self.total -= self._weight(self.uses.pop(next(iter(self.uses))))

    def _weight(self, use: Use | None) -> float:
        if use is None:
            return 0.0
        end = min(use.end, self.moment + DAY)  # whatever the file says, or somebody did to the clock
        return use.share * decayed_seconds(use.start, end, half_life=self.half_life, now=self.moment)


@dataclass
class UsageReader:
    """Reads everybody's use again and again, and only what is new."""

    lab: Path
    _accounts: dict[str, _Account] = field(default_factory=dict)

    def read(self, *, half_life: float, now: float, live: Iterable[str] = ()) -> dict[int, float]:
        """The device-seconds each user has used, by uid; those of long ago count less.

        Claims that are `live` are not counted: they count by what everybody sees, and not by what was last noted. So no
        note, which wakes nobody, changes the order of the queue.
        """
        used: dict[int, float] = {}
        accounts = {}
        for name, fd, most in _records(self.lab):
            account = accounts[name] = self._account(name, fd, most, half_life, now)
            used[_uid(name)] = used.get(_uid(name), 0.0) + account.at(now, live)
        self._accounts = accounts
        return used

    def seconds_since(self, start: float, end: float, without: Container[str]) -> dict[int, float]:
        """The device-seconds of each user between two moments, by uid, as of the last reading."""
        used: dict[int, float] = {}
        for name, account in self._accounts.items():
            uid = _uid(name)
            seconds = sum(
                use.share * max(0.0, min(use.end, end) - max(use.start, start))
                for use in account.uses.values()
                if use.claim not in without
            )
            used[uid] = used.get(uid, 0.0) + seconds
        return used

    def _account(self, name: str, fd: int, most: int, half_life: float, now: float) -> _Account:
        found = os.fstat(fd)
        account = self._accounts.get(name)
        if account is None or (account.inode, account.half_life) != (found.st_ino, half_life):
            account = _Account(found.st_ino, half_life, now)
        if found.st_size > account.read:
            account.read = max(account.read, found.st_size - most)  # whatever somebody appends to their own file
            text = os.pread(fd, most, account.read)
            whole = text[: text.rfind(b"\n") + 1]
            account.read += len(whole)
            account.move_to(now)
            for use in parse_uses(whole):
                account.add(use)
        return account


def read_uses(lab: Path) -> dict[int, list[Use]]:
    """Everybody's uses, by uid: the history, which goes further back than what fairness remembers."""
    uses: dict[int, list[Use]] = {}
    for name, fd, most in _records(lab):
        text = os.pread(fd, most, max(0, os.fstat(fd).st_size - most))
        uses.setdefault(_uid(name), []).extend(parse_uses(text))
    return uses


def parse_uses(text: bytes) -> Iterator[Use]:
    """The uses a file tells of; what cannot be read is passed over."""
    for line in text.splitlines():
        try:
            record: dict[str, Any] = json.loads(line)
            start, end, share = (float(record[key]) for key in ("start", "until", "share"))
            use = Use(
                word(record["claim"]), start, end, share, tuple(map(word, record.get("devices", ())[:MOST_DEVICES]))
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            continue
        if 0 <= use.start <= use.end < 1e11 and 0 <= use.share <= MOST_DEVICES:  # NaN compares false
            yield use
