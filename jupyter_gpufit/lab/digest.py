"""A user's record of use, made shorter by its owner before it fills the lab.

A running job writes a line every few minutes, and the last one of a claim counts: the others go first. Then the oldest
claims become one line for each day and set of devices, with the same device-seconds; and the oldest days go.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import struct
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .record import MOST_DEVICES

LARGEST = 128 << 10  # bytes: above it, a record is made shorter
SHORT = LARGEST // 2  # bytes that are left of it at the most
MOST_READ = 4 << 20  # bytes, of its beginning and of its end
_FORCED = 4 * LARGEST  # bytes above which it is made shorter whoever holds a lock on it

_Record = dict[str, Any]


def shorten(lab: Path, name: str) -> None:
    """Put a shorter record in this one's place. Our other jobs may append to it meanwhile: nothing of that is lost."""
    old = os.open(lab / name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not _alone(old):
            return
        size = os.fstat(old).st_size
        start = max(0, size - MOST_READ)
        text = os.pread(old, min(start, MOST_READ), 0) + b"\n" + os.pread(old, size - start, start)
        aside = lab / f".{name}.{secrets.token_hex(4)}"
        new = os.open(aside, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(new, shorter(text, SHORT))
            os.fchmod(new, 0o644)  # against the umask
            os.rename(aside, lab / name)
            os.write(new, os.pread(old, MOST_READ, size))  # what came meanwhile; later comers see that it is gone
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise
        finally:
            os.close(new)
    finally:
        os.close(old)


def _alone(fd: int) -> bool:
    """Is no other job of ours at it? Others could only hold us up, and not for ever."""
    lock = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, lock)
    except OSError:
        return os.fstat(fd).st_size > _FORCED
    return os.fstat(fd).st_nlink > 0


def shorter(text: bytes, most: int) -> bytes:
    """The same record in `most` bytes; what cannot be read goes."""
    last: dict[str, _Record] = {}
    for line in text.splitlines():
        record = _read(line)
        if record is not None:
            key = str(record.get("claim", "nameless" if "nameless" in record else "owed"))
            last.pop(key, None)  # to the end
            last[key] = record
    lines = [_line(record) for record in last.values()]
    uses = sorted((record for record in last.values() if "claim" in record), key=lambda record: record["until"])
    others = [record for record in last.values() if "claim" not in record]
    folded: list[_Record] = []
    while sum(map(len, lines)) > most and uses:
        half = (len(uses) + 1) // 2
        folded, uses = _fold([*folded, *uses[:half]]), uses[half:]
        lines = [_line(record) for record in [*folded, *uses, *others]]
    while sum(map(len, lines)) > most:
        del lines[0]
    return b"".join(lines)


def _read(line: bytes) -> _Record | None:
    try:
        record = json.loads(line.lstrip(b"\0"))
        if not isinstance(record, dict):
            return None
        if "claim" not in record:
            return record if isinstance(record.get("owed"), dict) or "nameless" in record else None
        start, until, share = (float(record[key]) for key in ("start", "until", "share"))
        if not (0 <= start <= until < 1e11 and 0 <= share <= MOST_DEVICES):
            return None
        devices = [str(uuid) for uuid in record.get("devices", ())]
        return record | {"start": start, "until": until, "share": share, "devices": devices}
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError):
        return None


def _fold(uses: Iterable[_Record]) -> list[_Record]:
    """One line for each day and set of devices."""
    days: defaultdict[tuple[str, str], list[_Record]] = defaultdict(list)
    for use in uses:
        days[str(datetime.fromtimestamp(use["start"], UTC).date()), " ".join(use["devices"])].append(use)
    return [_sum(day, together) for (day, _), together in sorted(days.items())]


def _sum(day: str, uses: list[_Record]) -> _Record:
    start, until = min(use["start"] for use in uses), max(use["until"] for use in uses)
    seconds = sum(use["share"] * (use["until"] - use["start"]) for use in uses)
    share = min(float(MOST_DEVICES), seconds / (until - start)) if until > start else 0.0
    claim = uses[0]["claim"] if str(uses[0]["claim"]).startswith("day.") else f"day.{day}.{secrets.token_hex(4)}"
    return {"format": 1, "claim": claim, "start": start, "until": until, "share": share, "devices": uses[0]["devices"]}


def _line(record: _Record) -> bytes:
    return json.dumps(record).encode() + b"\n"
