"""Holding fewer devices from now on: a second claim on some of what is held, before the first one goes.

It is no matter of turns: nothing is taken that was not held already, so at no moment do others lose anything by it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from .grant import Granted, Held
from .place import Placement
from .published import publish
from .record import Hold


def some_of(granted: Granted, devices: Collection[str]) -> Held:
    """A claim on those of its devices, by UUID; raises OSError where the lab has no room."""
    stay = tuple(device for device in granted.devices if device.uuid in devices)
    assert stay
    placement = Placement(stay, granted.bytes, granted.alone)
    hold = Hold(
        devices=tuple(device.uuid for device in stay),
        bytes=granted.bytes,
        alone=granted.alone,
        share=placement.share,
        began=granted.claim.began,
    )
    file = publish(granted.lab.path, granted.claim.request, hold)
    claim = file.as_claim(granted.claim.request, hold)
    return Held(file, replace(granted, devices=stay, fds=(file.fd,), claim=claim, _note=None))
