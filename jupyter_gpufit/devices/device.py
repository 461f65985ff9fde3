"""What each device is and has free: GPUs and MIG instances as NVML shows them, CPU slots as the settings name them.

Claims are not seen here: a CPU slot always looks free, and a GPU as free as its driver says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import NoSuchDevice

Kind = Literal["gpu", "mig", "slot"]


@dataclass(frozen=True)
class Process:
    """A process that holds memory of a device."""

    pid: int  # as the host counts: in a container it may name nothing, or something else
    user: str
    bytes: int | None = None  # None: the driver does not say
    started: float | None = None  # seconds since 1970; with the pid it names one process for good
    command: str = ""  # its beginning; empty: it cannot be read


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
