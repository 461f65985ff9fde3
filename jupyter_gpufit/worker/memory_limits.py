"""What the cell's process may take of each GPU. A limit of the cell's own holds beside ours, and never above it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class MemoryLimits:
    def __init__(self, set_fraction: Callable[[float, Any], None]) -> None:
        self._set = set_fraction
        self._ours: dict[int, float] = {}
        self._theirs: dict[int, float] = {}

    def limit(self, fraction: float, index: int) -> None:
        """Ours, of all that a GPU has."""
        self._ours[index] = fraction
        self._set(min(fraction, self._theirs.get(index, 1.0)), index)

    def set_per_process_memory_fraction(self, fraction: float, device: Any = None) -> None:
        """What `torch.cuda.set_per_process_memory_fraction` is to the cell."""
        from torch.cuda._utils import _get_device_index

        index = _get_device_index(device, optional=True)
        self._set(min(fraction, self._ours.get(index, 1.0)), index)  # torch says what is no fraction
        self._theirs[index] = fraction


@contextmanager
def of_torch() -> Iterator[MemoryLimits]:
    """They hold until here, also where the cell asks torch for another."""
    import torch

    homes: list[Any] = [torch.cuda.memory, torch.cuda]
    real = [home.set_per_process_memory_fraction for home in homes]
    limits = MemoryLimits(real[0])
    for home in homes:
        home.set_per_process_memory_fraction = limits.set_per_process_memory_fraction
    try:
        yield limits
    finally:
        for home, was in zip(homes, real, strict=True):
            home.set_per_process_memory_fraction = was
