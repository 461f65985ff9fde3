"""What each device is and has free: GPUs and MIG instances as NVML shows them, CPU slots as the settings name them.

Claims are not seen here: a CPU slot always looks free, and a GPU as free as its driver says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .errors import BadQuantity, BadSetting, NoSuchDevice
from .settings import Settings
from .units import parse_bytes

Kind = Literal["gpu", "mig", "slot"]

MOST_SLOTS = 64


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a device."""

    pid: int  # as the host counts: in a container it may name nothing, or something else
    user: str
    bytes: int | None = None  # None: the driver does not say
    started: float | None = None  # seconds since 1970; with the pid it names one process for good


@dataclass(frozen=True, kw_only=True)
class Device:
    """One device at one moment. Its uuid is its name for other programs; its JSON form is `asdict`."""

    uuid: str
    label: str  # what people type: "0", "0:1" (the second MIG instance of GPU 0), "cpu:0"
    name: str
    index: int  # in the order of nvidia-smi, which CUDA's need not be; of a MIG instance, its GPU's
    kind: Kind
    total: int  # bytes
    free: int  # bytes; none while there is a problem
    reserved: int = 0  # bytes the driver keeps for itself: neither free nor anybody's
    processes: tuple[Process, ...] = ()
    utilisation: int | None = None  # percent of the last moments in which it computed
    temperature: int | None = None  # °C
    power: float | None = None  # watts
    capability: tuple[int, int] | None = None  # CUDA compute capability
    problem: str = ""  # why it cannot be used, and what to do; empty: it is healthy

    @property
    def used(self) -> int:
        """Bytes that processes hold."""
        return 0 if self.problem else self.total - self.reserved - self.free


def read_devices(settings: Settings) -> tuple[Device, ...]:
    """Every device here, as it is now; raise NoDevice when there is none."""
    if slots := parse_slots(settings.devices):
        return slots
    from .nvml import read_gpus  # which builds on this module

    return read_gpus()


async def read_devices_async(settings: Settings) -> tuple[Device, ...]:
    """`read_devices` in a thread, since the driver may take seconds to answer, or hang with a broken GPU."""
    from .aside import aside  # whoever awaits has asyncio loaded; the others start faster without

    return await aside(lambda: read_devices(settings))


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


def find_device(devices: Sequence[Device], wanted: str) -> Device:
    """The one device with this label, UUID, index or start of a UUID."""
    word = wanted.strip().lower()
    for matches in (
        [device for device in devices if word in (device.label.lower(), device.uuid.lower())],
        [device for device in devices if word == str(device.index)],
        # "GPU-" alone begins all of them, and digits without it are an index.
        [device for device in devices if len(word) > 4 and device.uuid.lower().startswith(word)],
    ):
        if len(matches) == 1:
            return matches[0]
    known = tuple(d.label if d.label == d.uuid else f"{d.label} ({d.name}, {d.uuid})" for d in devices)
    raise NoSuchDevice(wanted, known)


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
