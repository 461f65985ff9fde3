"""Holding less of a device from now on, so that others can come; or more again, where nobody has taken it.

The new claim is published before the old one goes, so that at no moment less is held than either says. That is done
under the mutex: a directory that is read meanwhile may show neither. Whoever cannot have it stays as they are.

It is not a matter of turns. Who holds less frees room for whoever comes next; who holds more again takes only what is
free this moment, since a training that ran out of memory would have to begin again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from ..devices.device import Device
from ..errors import LabBusy
from .grant import Granted, Look, sort_out
from .ledger import LedgerReader
from .mutex import lab_mutex
from .place import Placement, Room, rooms
from .published import Published, publish
from .record import Claim, Hold, Request


async def resize(granted: Granted, needed: int | None, look: Look) -> bool:
    """Hold so many bytes of the one device that is held, or (None) the whole of it; False: that cannot be now."""
    devices = await look()
    with suppress(LabBusy, OSError):  # it is full, or was emptied: no reason to end a training
        async with lab_mutex(granted.lab.path, name_holder=False):
            return _resize(granted, needed, devices)
    return False


def _resize(granted: Granted, needed: int | None, devices: Sequence[Device]) -> bool:
    [device] = granted.devices
    old = granted.lab.path / granted.claim.id
    request = replace(granted.claim.request, needed=needed, exclusive=False)
    room = _room(granted, device, devices, LedgerReader(granted.lab.path).read().claims)
    if room is None or not old.exists():
        return False
    bytes = room.free if needed is None else needed
    placement = Placement((device,), bytes, request.alone)
    if not (_is_less(placement, granted) or (room.fits(request) and room.admits(placement))):
        return False
    hold = Hold(
        devices=(device.uuid,), bytes=bytes, alone=placement.alone, share=placement.share, began=granted.claim.began
    )
    file = publish(granted.lab.path, request, hold)
    later = LedgerReader(granted.lab.path).read().claims
    before = [claim for claim in later if claim.since <= file.since and claim.id != file.id]
    room = _room(granted, device, devices, before)
    # Somebody may have claimed without the mutex.
    if not (_is_less(placement, granted) or (room is not None and room.admits(placement))):
        file.drop()
        return False
    _take_over(granted, placement, file, request, hold)
    return True


def _room(granted: Granted, device: Device, devices: Sequence[Device], claims: Sequence[Claim]) -> Room | None:
    """What others leave of the device."""
    others = [claim for claim in claims if claim.id != granted.claim.id]
    return rooms(sort_out(devices, claims), others).get(device.uuid)


def _is_less(placement: Placement, granted: Granted) -> bool:
    """Is it within what is held already?"""
    return placement.bytes <= granted.bytes and placement.alone <= granted.alone


def _take_over(granted: Granted, placement: Placement, file: Published, request: Request, hold: Hold) -> None:
    granted.mark()  # the use so far; from now on it costs what the new claim is
    old = granted.lab.path / granted.claim.id
    claim = file.as_claim(request, hold)
    file.replace(old, granted.fds[0])
    granted.bytes, granted.alone, granted.claim = placement.bytes, placement.alone, claim
