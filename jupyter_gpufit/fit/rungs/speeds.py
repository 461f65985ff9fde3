"""Measures how fast a device and its link are: a fifth of a second, once for each type of device."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

from ...devices.speeds import DeviceSpeed
from .host import HostCopy, fetch, save

_LARGE = 16 << 20  # bytes
_WIDE = {"cpu": 384, "cuda": 4096}  # of the matrices: each product takes some milliseconds
_TIMES = 3


def measure_speed(device: str) -> DeviceSpeed:
    """Of "cpu" or "cuda"; the best of a few, since a device that is busy tells little."""
    wide = _WIDE[device]
    with torch.no_grad():
        matrix, row = torch.randn(wide, wide, device=device), torch.randn(_LARGE // 4, device=device)
        small = torch.ones(4, device=device)
        one = _best(lambda: small.add_(1), device, 200)
        product = _best(lambda: matrix @ matrix, device, 4)
        each = _best(lambda: row.mul_(1.0), device, 2)
        storage, copy = row.untyped_storage(), HostCopy(_LARGE, real=True)
        out = _best(lambda: save(storage, copy, _LARGE), device, 1)
        back = _best(lambda: fetch(storage, copy, _LARGE), device, 1)
    return DeviceSpeed(
        flops=2 * wide**3 / product,
        memory=2 * _LARGE / each,
        link=_LARGE / max(out, back),
        operation=one,
        measured=True,
    )


def _best(run: Callable[[], object], device: str, count: int) -> float:
    """Seconds of one."""
    found = []
    for _ in range(_TIMES):
        _finish(device)
        began = time.perf_counter()
        for _ in range(count):
            run()
        _finish(device)
        found.append((time.perf_counter() - began) / count)
    return min(found)


def _finish(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
