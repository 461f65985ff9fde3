"""CPU slots, as the setting `devices` names them."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from ..errors import BadQuantity, BadSetting
from ..quantities import parse_bytes
from .device import Device

MOST_SLOTS = 64


def parse_slots(text: str) -> tuple[Device, ...]:
    """The CPU slots that the setting `devices` asks for; none when it asks for GPUs."""
    text = text.strip().lower()
    if text in ("", "gpu"):
        return ()
    sizes = [size for part in text.split(",") for size in _slot_sizes(part.strip())]
    if len(sizes) > MOST_SLOTS:
        raise _bad_slots(f"{len(sizes)} slots are more than {MOST_SLOTS}.")
    return tuple(
        Device(uuid=f"cpu:{i}", label=f"cpu:{i}", name=f"CPU slot {i}", index=i, kind="slot", total=size, free=size)
        for i, size in enumerate(sizes)
    )


def _slot_sizes(part: str) -> list[int]:
    match = re.fullmatch(r"cpu:(?:([0-9]{1,4})x)?(.+)", part)
    if match is None:
        raise _bad_slots(f"{part!r} names no device.")
    try:
        count, size = int(match[1] or 1), parse_bytes(match[2])
    except BadQuantity as error:
        raise _bad_slots(str(error)) from error
    if not count or not size:
        raise _bad_slots(f"{part!r} is a device without memory.")
    return [size] * count


def _bad_slots(why: str) -> BadSetting:
    allowed = "Write gpu (or nothing) for the GPUs, or CPU slots: cpu:2x4GiB, or a list such as cpu:4GiB,cpu:2x8GiB."
    return BadSetting("devices", "GPUFIT_DEVICES or settings.toml", f"{why} {allowed}")


def default_slot_size() -> int:
    """Half of the memory: a notebook, a browser and the rest of the system want to live, too."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def has_nvidia_gpu(buses: Path = Path("/sys/bus/pci/devices")) -> bool:
    """Whether there is one in the machine, whatever its driver says; a driver that is broken must be heard of."""
    for device in buses.glob("*"):
        with suppress(OSError):
            of_nvidia = (device / "vendor").read_text().strip() == "0x10de"
            if of_nvidia and (device / "class").read_text().startswith("0x03"):  # a display controller
                return True
    return False
