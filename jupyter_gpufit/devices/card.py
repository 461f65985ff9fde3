"""A type of device, as a cell can learn of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """What a cell can learn of a device, and what decides which kernels run on it."""

    name: str  # as torch.cuda.get_device_name() says it
    total: int  # bytes
    capability: tuple[int, int]  # CUDA's compute capability
    sms: int  # streaming multiprocessors
    is_cpu: bool = False  # a slot, on which the CPU's kernels run
