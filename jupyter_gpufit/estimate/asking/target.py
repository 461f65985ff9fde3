"""For which card an estimate is made, and what of the devices here it is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...devices.card import Card
from ...devices.cards import DEFAULT, Context, Sheet, context_of, find_card, sheet_of
from ...devices.device import Device, Kind
from ...devices.here import read_devices
from ...devices.speeds import TYPICAL, DeviceSpeed, assumed, kept_speed
from ...errors import NoDevice
from ...lab import open_lab
from ...lab.place import Room
from ...lab.view import LabReader
from ...settings import Settings
from .ask import Ask


@dataclass(frozen=True)
class EstimateTarget:
    """A card, and the devices here in their order."""

    card: Card
    kind: Kind
    context: Context
    rooms: tuple[Room, ...] = ()
    remark: str = ""  # why it is this card, where that may surprise
    speed: DeviceSpeed = TYPICAL

    @property
    def room(self) -> int:
        """Bytes for a job when the device is idle."""
        same = [room.space.usable for room in self.rooms if room.device.name == self.card.name]
        return max(same, default=self.card.total * 9 // 10)

    def ask(self, limit: float, **more: Any) -> Ask:
        """The question for it; `limit`: seconds of a trial run."""
        ours = {"card": self.card, "kind": self.kind, "context": self.context, "speed": self.speed}
        return Ask(**{**ours, **more, "limit": limit})


def choose_target(settings: Settings, named: str = "") -> EstimateTarget:
    """The card that is named, or else the largest device here, or else a common one."""
    if named:
        sheet = find_card(named)
        context, speed = context_of(settings, "gpu", sheet.card.name), _speed_of(settings, "gpu", sheet)
        return EstimateTarget(sheet.card, "gpu", context, remark=sheet.remark, speed=speed)
    try:
        devices = read_devices(settings)
    except NoDevice as error:
        card = find_card(DEFAULT).card
        remark = f"There is no device here ({error.why.rstrip('.')}); --on names another card."
        return EstimateTarget(card, "gpu", context_of(settings, "gpu", card.name), remark=remark)
    return target_of(settings, largest_of(devices), _rooms(settings, devices))


def target_of(settings: Settings, device: Device, rooms: tuple[Room, ...] = ()) -> EstimateTarget:
    """A device that is here."""
    sheet = sheet_of(device)
    card = sheet.card
    others = sorted({other.device.name for other in rooms if other.device.kind != "slot"} - {device.name})
    remark = f"Estimated for {device.name}; other kernels may run on {', '.join(others)}." if others else ""
    if device.kind == "slot":
        remark = "Estimated for a CPU slot, in the memory of its process; --on names a card."
    context, speed = context_of(settings, device.kind, card.name), _speed_of(settings, device.kind, sheet)
    return EstimateTarget(card, device.kind, context, rooms, remark, speed)


def _speed_of(settings: Settings, kind: Kind, sheet: Sheet) -> DeviceSpeed:
    return kept_speed(settings, kind, sheet.card.name) or assumed(sheet.rates)


def largest_of(devices: Sequence[Device]) -> Device:
    """The healthy device with most memory; of equals the first."""
    return max(devices, key=lambda device: (not device.problem, device.total, -device.index))


def _rooms(settings: Settings, devices: tuple[Device, ...]) -> tuple[Room, ...]:
    view = LabReader(open_lab(settings)).view(devices)
    return tuple(view.rooms[device.uuid] for device in devices)
