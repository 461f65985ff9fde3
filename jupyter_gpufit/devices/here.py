"""The devices of this machine, as they are now."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NoDevice
from ..settings import Settings
from ..units import format_bytes
from .device import Device
from .slots import default_slot_size, has_nvidia_gpu, parse_slots


def read_devices(settings: Settings) -> tuple[Device, ...]:
    """Every device here, as it is now. Where nothing is chosen and the machine has no GPU, it is a CPU slot.

    Raise NoDevice where there is one that cannot be used, or GPUs are asked for by name.
    """
    if slots := parse_slots(settings.devices):
        return slots
    from .nvml import read_gpus  # which builds on this module

    try:
        return read_gpus()
    except NoDevice:
        if settings.devices.strip() or has_nvidia_gpu():
            raise
        return parse_slots(f"cpu:{default_slot_size()}B")


def not_asked_for(devices: Sequence[Device], settings: Settings) -> str:
    """What a user is to be told whose training got a slot without having chosen any; empty: nothing."""
    if settings.devices.strip() or not any(device.kind == "slot" for device in devices):
        return ""
    return (
        f"This machine has no NVIDIA GPU, so this trains on a CPU slot of {format_bytes(devices[0].total)}, half of its"
        " memory. With GPUFIT_DEVICES=cpu:2x4GiB there are two of 4 GiB."
    )


async def read_devices_async(settings: Settings) -> tuple[Device, ...]:
    """`read_devices` in a thread, since the driver may take seconds to answer, or hang with a broken GPU."""
    from ..system.background import aside  # whoever awaits has asyncio loaded; the others start faster without

    return await aside(lambda: read_devices(settings))
