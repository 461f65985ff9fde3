"""The page: what was read, put together for people; pure but for the template that it loads once.

Drawn by the server, without a script. Every text of a user's is escaped by Jinja.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from ..actions.status import ClaimView, Status
from ..devices.device import Device
from ..lab.history import DAY, Row, sum_up, unit_of
from ..lab.usage import Use
from ..units import format_bytes, format_duration
from . import plots
from .audit import AuditEntry
from .store import BusyPoint

WEEK = 7 * DAY
SHOWN = 24 * 3600.0  # seconds of utilisation
STRETCH = 900.0
MOST_BARS = 20
AUDIT_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class HubPage:
    """Everything that one page shows."""

    status: Status
    uses: Mapping[int, Sequence[Use]]  # of the last week, by uid
    busy: Mapping[str, Sequence[BusyPoint]]
    user: str
    admin: bool
    drained: Collection[str] = ()  # labels of devices that the page has drained
    audit: Sequence[AuditEntry] = ()
    xsrf: str = ""  # the form's hidden field


def render(page: HubPage) -> str:
    status, now = page.status, page.status.time
    by_user = sum_up(page.uses, "user", start=now - WEEK, end=now, devices={})
    return _template().render(
        page=page,
        devices=[_device(place, status, page.busy, page.drained, now) for place in range(len(status.devices))],
        claims=[_claim(claim, status, now) for claim in status.claims],
        hours=_bars(by_user),
        unit=unit_of(status.devices),
        read=time.strftime("%H:%M:%S", time.localtime(now)),
        xsrf=Markup(page.xsrf),
        ago=lambda moment: format_duration(max(0.0, now - moment)),
        clock=lambda moment: time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment)),
    )


@cache
def _template() -> Template:
    loader = PackageLoader("jupyter_gpufit.hub", "templates")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).get_template("overview.html")


def _device(
    place: int, status: Status, busy: Mapping[str, Sequence[BusyPoint]], drained: Collection[str], now: float
) -> dict[str, object]:
    device = status.devices[place]
    room = status.rooms[place] if place < len(status.rooms) else None
    free = device.free if room is None else room.free
    taken = max(0, device.total - free)
    points = busy.get(device.label, ())
    mean = plots.mean_busy(busy, device.label)
    return {
        "device": device,
        "total": format_bytes(device.total),
        "taken": format_bytes(taken),
        "share": round(100 * taken / device.total) if device.total else 0,
        "holders": [claim for claim in status.claims if device.label in claim.devices],
        "strangers": sorted({process.user for process in room.strangers}) if room else [],
        "drained": device.label in drained,
        "held_for": room.held_for if room else "",
        "mean": None if mean is None else f"{mean:.0%}",
        "busy_word": "busy" if device.utilisation is not None else "held",
        "plot": Markup(plots.lines(points, now - SHOWN, now, STRETCH, device.label)) if points else None,
    }


def _claim(claim: ClaimView, status: Status, now: float) -> dict[str, object]:
    return {
        "claim": claim,
        "bytes": "the whole device" if claim.alone else format_bytes(claim.bytes),
        "held": format_duration(max(0.0, now - claim.since)),
        "idle": _is_idle(claim, status),
        "idle_for": format_duration(max(0.0, now - claim.idle_since)) if claim.idle_since is not None else "",
    }


def _is_idle(claim: ClaimView, status: Status) -> bool:
    """By its holder's own word; of one that says nothing, by the driver's."""
    if claim.idle_since is not None:
        return True
    mine: list[Device] = [device for device in status.devices if device.label in claim.devices]
    return bool(mine) and all(device.utilisation == 0 for device in mine)


def _bars(rows: Sequence[Row]) -> Markup:
    return Markup(plots.bars([(row.name, row.hours) for row in rows[:MOST_BARS]], "h"))
