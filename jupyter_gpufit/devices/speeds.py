"""How fast a device and its link are, and an exchange between several: measured once for each type of device, and kept.

Where nothing was measured yet, a card's data sheet and a typical link stand in, and a CPU slot is measured on the spot.
An exchange is measured by the first training on so many devices.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..settings import Settings
from ..system.directories import data_dir
from ..system.files import write_whole
from ..system.foreign import known, parsed_record

FORMAT = 1


@dataclass(frozen=True)
class DeviceSpeed:
    """What a training gets of it, and not what is the most that could be had."""

    flops: float  # operations a second, of a product of matrices in float32
    memory: float  # bytes a second, read and written, of an operation on each element
    link: float  # bytes a second to the host; as many come back at the same time
    operation: float = 1e-5  # seconds that the smallest takes
    measured: bool = False  # on a device of this type; else assumed
    exchange: float = 1.4e9  # bytes a second, of a sum over two devices
    meeting: float = 1e-4  # seconds that the smallest one takes

    @property
    def words(self) -> str:
        how = "measured" if self.measured else "assumed, until a training by a plan has measured it"
        return f"{self.flops / 1e12:.3g} TFLOP/s, a link of {self.link / 1e9:.3g} GB/s ({how})"


TYPICAL = DeviceSpeed(flops=10e12, memory=500e9, link=12e9)


def assumed(rates: Mapping[str, float]) -> DeviceSpeed:
    """Of a card by its data sheet; half of its peak is what trainings get."""
    flops = rates.get("tf32", rates.get("float32", 0.0)) / 2
    return DeviceSpeed(flops or TYPICAL.flops, TYPICAL.memory, TYPICAL.link)


def kept_speed(settings: Settings, kind: str, name: str) -> DeviceSpeed | None:
    """What was measured on a device of this type."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = parsed_record(_path(settings).read_bytes())
        if record["format"] == FORMAT:
            return DeviceSpeed(**known(DeviceSpeed, record["speeds"][_key(kind, name)]))
    return None


def keep_speed(settings: Settings, kind: str, name: str, speed: DeviceSpeed) -> None:
    """For all later plans; a disk that is full loses it."""
    speeds = {}
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = parsed_record(_path(settings).read_bytes())
        speeds = dict(record["speeds"]) if record["format"] == FORMAT else {}
    with suppress(OSError):
        _path(settings).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = json.dumps({"format": FORMAT, "speeds": {**speeds, _key(kind, name): asdict(speed)}}, indent=1)
        write_whole(_path(settings), text)


def keep_exchange(settings: Settings, kind: str, name: str, devices: int, exchange: float, meeting: float) -> None:
    """What was measured of so many devices of this type."""
    speed = replace(TYPICAL, exchange=exchange, meeting=meeting, measured=True)
    keep_speed(settings, _of_several(kind, devices), name, speed)


def knows_exchange(settings: Settings, kind: str, name: str, devices: int) -> bool:
    return kept_speed(settings, _of_several(kind, devices), name) is not None


def among(settings: Settings, speed: DeviceSpeed, kind: str, name: str, devices: int) -> DeviceSpeed:
    """Of each of several devices. CPU slots share the processors, and what they gain is only what these leave idle."""
    if devices == 1:
        return speed
    known = kept_speed(settings, _of_several(kind, devices), name)
    far = devices / 2  # as much for each as for the second
    exchange, meeting = (known.exchange, known.meeting) if known else (speed.exchange / far, speed.meeting * far)
    share = _share_of_processors(devices) if kind == "slot" else 1.0
    return replace(speed, exchange=exchange, meeting=meeting, flops=speed.flops * share, memory=speed.memory * share)


def _share_of_processors(devices: int) -> float:
    """Of the speed that was measured with all of this process's threads."""
    there = len(os.sched_getaffinity(0))
    threads = min(int(os.environ.get("OMP_NUM_THREADS") or there), there)
    return min(max(1, threads // devices), there / devices) / threads


def _of_several(kind: str, devices: int) -> str:
    return f"{devices} {kind}"


def _path(settings: Settings) -> Path:
    return data_dir(settings) / "speeds.json"


def _key(kind: str, name: str) -> str:
    """All slots are this host's processor."""
    many, _, one = kind.rpartition(" ")
    return f"{many} {'slot' if one == 'slot' else name}".strip()
