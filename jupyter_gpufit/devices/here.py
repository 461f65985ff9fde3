"""The devices of this machine, as they are now."""

from __future__ import annotations

from ..settings import Settings
from .device import Device
from .slots import parse_slots


def read_devices(settings: Settings) -> tuple[Device, ...]:
    """Every device here, as it is now; raise NoDevice when there is none."""
    if slots := parse_slots(settings.devices):
        return slots
    from .nvml import read_gpus  # which builds on this module

    return read_gpus()


async def read_devices_async(settings: Settings) -> tuple[Device, ...]:
    """`read_devices` in a thread, since the driver may take seconds to answer, or hang with a broken GPU."""
    from ..system.background import aside  # whoever awaits has asyncio loaded; the others start faster without

    return await aside(lambda: read_devices(settings))
