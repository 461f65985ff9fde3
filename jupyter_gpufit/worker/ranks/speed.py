"""How fast ranks put things together: measured once for each number of devices of a type, by the first who train there.

What is predicted for others goes by it. It takes some hundredths of a second, before the cell begins.
"""

from __future__ import annotations

import time

import torch

from ...devices.device import Device
from ...devices.speeds import keep_exchange, knows_exchange
from ...settings import Settings
from .shared import SharedGroup

LARGE = 4 << 20  # bytes
TIMES = 3
SMALL = 10  # sums of next to nothing


def is_unknown(settings: Settings, device: Device, devices: int) -> bool:
    return not knows_exchange(settings, device.kind, device.name, devices)


def measure(group: SharedGroup, device: Device, settings: Settings) -> None:
    """By all ranks at once; the first one keeps it."""
    where = "cpu" if device.kind == "slot" else "cuda"
    large, small = torch.zeros(LARGE // 4, device=where), torch.zeros(1, device=where)
    many = min(_seconds(group, large, 1) for _ in range(TIMES))
    meeting = min(_seconds(group, small, SMALL) for _ in range(TIMES))
    group.begin()
    if group.rank == 0 and many > meeting:
        keep_exchange(settings, device.kind, device.name, group.size, LARGE / (many - meeting), meeting)


def _seconds(group: SharedGroup, tensor: torch.Tensor, times: int) -> float:
    """Of one sum, once all are here."""
    group.meet()
    began = time.perf_counter()
    for _ in range(times):
        group.all_reduce(tensor)
    return (time.perf_counter() - began) / times
