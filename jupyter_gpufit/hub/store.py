"""What the service remembers: how busy each device was, minute by minute, and who held what. One SQLite file.

The lab's own records go with a restart of the machine; these stay. They are for looking at: nobody's turn rests
on them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..lab.usage import Use

MINUTE, DAY = 60.0, 86400.0
KEPT = 400 * DAY  # seconds after which it is forgotten
MOST_EACH = 20_000  # uses of one user: fifty a day
SCHEMA = """
create table if not exists sample(
  minute integer, device text, looks integer, busy real, held integer, primary key (minute, device)) without rowid;
create table if not exists use(
  uid integer, claim text, start real, end real, share real, devices text, primary key (uid, claim)) without rowid;
create index if not exists use_end on use(end);
"""


@dataclass(frozen=True)
class DeviceLook:
    """A device at one moment."""

    device: str  # label
    busy: float | None  # 0 to 1; None: it has no driver that would tell
    held: bool


@dataclass(frozen=True)
class BusyPoint:
    """A stretch of a device's time."""

    time: float  # seconds since 1970: its begin
    busy: float  # mean, 0 to 1; of a device that does not tell, how much of it somebody held it


class HubStore:
    """For several threads."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        old = os.umask(0o077)
        try:
            self._db = sqlite3.connect(path, check_same_thread=False)
        finally:
            os.umask(old)
        self._one = threading.Lock()
        self._db.execute("pragma journal_mode = wal")  # who is killed while it writes loses a minute, and no file
        self._db.executescript(SCHEMA)

    def close(self) -> None:
        self._db.close()

    def note(self, now: float, looks: Iterable[DeviceLook], uses: Mapping[int, Sequence[Use]]) -> None:
        """Add a look at the devices to its minute, and the uses as they are by now."""
        minute = int(now // MINUTE)
        with self._one, self._db:
            for look in looks:
                busy = float(look.held) if look.busy is None else look.busy
                self._db.execute(
                    "insert into sample values (?, ?, 1, ?, ?) on conflict do update set looks = looks + 1,"
                    " busy = busy + excluded.busy, held = held + excluded.held",
                    (minute, look.device, busy, int(look.held)),
                )
            self._db.executemany(
                "insert into use values (?, ?, ?, ?, ?, ?) on conflict do update set end = max(end, excluded.end)",
                [
                    (uid, use.claim, use.start, min(use.end, now), use.share, json.dumps(use.devices))
                    for uid, found in uses.items()
                    for use in found
                    if use.start <= now  # the records are the users' own, and may say anything
                ],
            )
            for uid in uses:
                self._db.execute(
                    "delete from use where uid = ? and claim in"
                    " (select claim from use where uid = ? order by end desc limit -1 offset ?)",
                    (uid, uid, MOST_EACH),
                )
            self._db.execute("delete from sample where minute < ?", ((now - KEPT) // MINUTE,))
            self._db.execute("delete from use where end < ?", (now - KEPT,))

    def uses(self, start: float) -> dict[int, list[Use]]:
        """Each user's uses that went on after this moment, by uid."""
        found: dict[int, list[Use]] = {}
        with self._one:
            rows = self._db.execute("select * from use where end >= ?", (start,)).fetchall()
        for uid, claim, begin, end, share, devices in rows:
            found.setdefault(uid, []).append(Use(claim, begin, end, share, tuple(json.loads(devices))))
        return found

    def busy(self, start: float, end: float, stretch: float) -> dict[str, list[BusyPoint]]:
        """How busy each device was, by its label; stretches in which nobody looked are left out."""
        minutes = max(1, int(stretch // MINUTE))
        with self._one:
            rows = self._db.execute(
                "select device, minute / ? as stretch, sum(busy) / sum(looks) from sample"
                " where minute >= ? and minute < ? group by device, stretch order by device, stretch",
                (minutes, start // MINUTE, end // MINUTE + 1),
            ).fetchall()
        found: dict[str, list[BusyPoint]] = {}
        for device, number, busy in rows:
            found.setdefault(device, []).append(BusyPoint(number * minutes * MINUTE, busy))
        return found
