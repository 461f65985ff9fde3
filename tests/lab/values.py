"""Tickets and claims made up in a line, for the tests of what is pure."""

from __future__ import annotations

from collections.abc import Sequence

from jupyter_gpufit.devices.device import Device
from jupyter_gpufit.lab.place import Space
from jupyter_gpufit.lab.record import Claim, Hold, Request, Ticket
from jupyter_gpufit.testing import fake_device
from jupyter_gpufit.units import GiB

ADA, BOB, EVE = 61001, 61002, 61003
SECOND = 10**9  # ns


def request(needed: int | None = 4 * GiB, **more: object) -> Request:
    return Request(**{"job_id": "j", "name": "bert", "needed": needed} | more)  # type: ignore[arg-type]


def ticket(uid: int = ADA, since: int = 0, needed: int | None = 4 * GiB, **more: object) -> Ticket:
    """`since` in seconds; no two tickets made here are equal."""
    ticket.count += 1  # type: ignore[attr-defined]
    number = ticket.count  # type: ignore[attr-defined]
    return Ticket(
        id=f"q.{uid}.{number:016x}",
        uid=uid,
        since=since * SECOND,
        tie=number,
        pid=1,
        request=request(needed, **more),
    )


ticket.count = 0  # type: ignore[attr-defined]


def claim(
    devices: Sequence[str],
    bytes: int,
    uid: int = BOB,
    since: int = 0,
    alone: bool = False,
    pid: int = 1,
    **more: object,
) -> Claim:
    made = ticket(uid, since, bytes, **more)
    hold = Hold(devices=tuple(devices), bytes=bytes, alone=alone)
    return Claim(**vars(made) | {"id": made.id.replace("q", "c", 1), "pid": pid}, hold=hold)


def slots(*sizes: int) -> list[Device]:
    """cpu:0, cpu:1, ... with so many GiB."""
    return [
        fake_device(f"cpu:{i}", label=f"cpu:{i}", index=i, kind="slot", total=size * GiB, utilisation=None)
        for i, size in enumerate(sizes)
    ]


def spaces(devices: Sequence[Device], foreign: int = 0) -> list[Space]:
    return [Space(device, foreign) for device in devices]
