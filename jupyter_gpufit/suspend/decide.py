"""Whether a released training may be suspended, and whether the driver can bring it to where it is to go on; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..devices.device import Device
from ..units import GiB, format_bytes

KEPT_FREE = GiB  # bytes of the host's memory that a suspended process leaves to others


@dataclass(frozen=True)
class LeftAsleep:
    """What a training had when it was suspended."""

    device: Device
    held: int  # bytes of its tensors
    context: int  # bytes beside them

    @property
    def bytes(self) -> int:
        """What the device had of it, and the host has now."""
        return self.held + self.context


def why_not(left: LeftAsleep, *, devices: int, children: int, trackers: int, free: int) -> str:
    """Why the process had better end: half a sentence; `free`: bytes of the host's memory."""
    if devices != 1:
        return f"it has {devices} devices, and the driver moves processes with one"
    if left.device.kind == "mig":
        return "it is on a part of a GPU (MIG), which the driver does not suspend"
    if children:  # forked, they may hold what the driver is to give back, and the claim's lock
        return f"it has {children} processes of its own (the workers of a DataLoader, say)"
    if trackers:  # their connections do not outlast a release
        return "it has an open run of W&B or MLflow"
    if left.bytes > free - KEPT_FREE:
        return f"the host has {format_bytes(free)} of memory free, too little for its {format_bytes(left.bytes)}"
    return ""


@dataclass(frozen=True)
class Back:
    """The way back onto a device."""

    to: Mapping[str, str]  # by UUID, which device becomes which; empty: all as it was
    why_not: str = ""  # half a sentence; empty: it is open


def way_back(left: LeftAsleep, device: Device, room: int, devices: Sequence[Device]) -> Back:
    """From where it was to a device on which its tensors may have so many bytes, given all devices that are here."""
    if _type(device) != _type(left.device):
        return Back({}, f"it was on {_type(left.device)}, and {device.label} is {_type(device)}")
    if room < left.held:
        return Back({}, f"it would come back with {format_bytes(left.held)}, and {format_bytes(room)} were claimed")
    if device.uuid == left.device.uuid:
        return Back({})
    if any(one.kind == "mig" for one in devices):
        return Back({}, "the driver moves nothing on a machine with parts of GPUs (MIG)")
    if len({_type(one) for one in devices}) != 1 or left.device.uuid not in (one.uuid for one in devices):
        return Back({}, "the driver moves between GPUs only where all are of one type")
    # It wants to hear of every GPU of the machine, also of those that the process never saw.
    swapped = {left.device.uuid: device.uuid, device.uuid: left.device.uuid}
    return Back({one.uuid: swapped.get(one.uuid, one.uuid) for one in devices})


def _type(device: Device) -> str:
    return "a CPU slot" if device.kind == "slot" else device.name


def is_elsewhere(pid: int, device: Device, devices: Sequence[Device], *, moved: bool) -> str:
    """Why the restored process must not go on where the driver has put it.

    In a container the driver may count pids otherwise. A process that stayed is then believed to be where it was.
    """
    if device.kind == "slot":
        return ""
    there = {one.uuid for one in devices if any(process.pid == pid for process in one.processes)}
    if there - {device.uuid}:
        return "the driver put it on another device than the one it claimed"
    return "it cannot be seen where the driver has put it" if moved and not there else ""
