"""Who used how much: the users' records of use and the claims of this moment, summed into device-hours.

The records are the users' own (see lab/usage.py): auditable, not tamper-proof. They lie in the lab, which a restart
of the machine empties.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from ..devices.device import Device
from ..devices.here import read_devices
from ..errors import DeviceError
from ..settings import Settings
from ..system.users import user_name
from . import Claim, Lab, open_lab
from .ledger import LedgerReader
from .usage import Use, read_uses

By = Literal["user", "device", "day"]
Clipped = tuple[str, str, float]  # under which name, of which claim, device-hours

HOUR, DAY = 3600.0, 86400.0
ELSEWHERE = "other devices"  # gone by now, or made up: what somebody wrote is no name of a row here


@dataclass(frozen=True)
class Row:
    """What one user, one device or one day comes to."""

    name: str
    hours: float  # device-hours: half of a GPU for two hours is one
    claims: int  # how many


@dataclass(frozen=True)
class History:
    """Use of the last days, the most first (days: in their order)."""

    by: By
    days: float
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    unit: str = "GPU-hours"  # in words

    def to_record(self) -> dict[str, object]:
        rows = [{self.by: row.name, "gpu_hours": round(row.hours, 4), "claims": row.claims} for row in self.rows]
        return {"by": self.by, "days": self.days, "rows": rows, "remarks": self.remarks}


def read_history(settings: Settings, by: By, days: float) -> History:
    """Sum up the lab's last days."""
    lab, now = open_lab(settings), time.time()
    uses = all_uses(lab, now)
    devices = _devices(settings)
    labels = {device.uuid: device.label for device in devices}
    rows = sum_up(uses, by, start=now - days * DAY, end=now, devices=labels)
    return History(by, days, rows, tuple(filter(None, [lab.remark_on(devices)])), unit_of(devices))


def all_uses(lab: Lab, now: float) -> dict[int, list[Use]]:
    """Each user's uses, by uid; a claim that is still held counts up to now."""
    uses = {uid: {use.claim: use for use in found} for uid, found in read_uses(lab.path).items()}
    for claim in LedgerReader(lab.path).read().claims:
        uses.setdefault(claim.uid, {})[claim.id] = _so_far(claim, now)
    return {uid: list(found.values()) for uid, found in uses.items()}


def sum_up(
    uses: Mapping[int, Sequence[Use]], by: By, *, start: float, end: float, devices: Mapping[str, str]
) -> tuple[Row, ...]:
    """Device-hours within the span; `devices` gives the labels of the UUIDs that have a row of their own."""
    split: Callable[[int, Use], Iterable[Clipped]] = {
        "user": lambda uid, use: [(user_name(uid), use.claim, _hours(use, start, end))],
        "device": lambda uid, use: _by_device(use, _hours(use, start, end), devices),
        "day": lambda uid, use: [
            (str(day), use.claim, _hours(use, max(start, morning), min(end, night)))
            for day, morning, night in days_between(max(start, use.start), min(end, use.end))
        ],
    }[by]
    hours: defaultdict[str, float] = defaultdict(float)
    claims: defaultdict[str, set[str]] = defaultdict(set)
    for uid, found in uses.items():
        for use in found:
            for name, claim, much in split(uid, use):
                if much > 0:
                    hours[name] += much
                    claims[name].add(f"{uid}.{claim}")
    rows = [Row(name, hours[name], len(claims[name])) for name in hours]
    return tuple(sorted(rows, key=lambda row: row.name if by == "day" else (-row.hours, row.name)))


def days_between(start: float, end: float) -> Iterable[tuple[date, float, float]]:
    """The calendar days that a span touches, each with its beginning and end here (a day may have 23 hours)."""
    day = datetime.fromtimestamp(start).date()
    while (morning := _midnight(day)) < end:
        yield day, morning, _midnight(day + timedelta(days=1))
        day += timedelta(days=1)


def _midnight(day: date) -> float:
    return datetime(day.year, day.month, day.day).timestamp()


def _hours(use: Use, start: float, end: float) -> float:
    return use.share * max(0.0, min(use.end, end) - max(use.start, start)) / HOUR


def _by_device(use: Use, hours: float, devices: Mapping[str, str]) -> list[Clipped]:
    each = hours / max(1, len(use.devices))
    return [(devices.get(uuid, ELSEWHERE), use.claim, each) for uuid in use.devices or ("",)]


def _so_far(claim: Claim, now: float) -> Use:
    return Use(claim.id, claim.since / 1e9, max(now, claim.since / 1e9), claim.hold.share, claim.hold.devices)


def unit_of(devices: Sequence[Device]) -> str:
    kinds = {device.kind for device in devices}
    return "GPU-hours" if kinds == {"gpu"} else "slot-hours" if kinds == {"slot"} else "device-hours"


def _devices(settings: Settings) -> Sequence[Device]:
    try:
        return read_devices(settings)
    except DeviceError:
        return ()  # the records can be read without the driver
