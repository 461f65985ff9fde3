"""The one seam between a GPU and a CPU slot: what "being on the granted device" means for the cell's process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..devices.cards import context_of
from ..devices.device import Device
from ..estimate.asking.lesson import Took
from ..lab import Granted
from ..settings import load_settings
from . import no_device
from .memory_limits import MemoryLimits, of_torch


@dataclass(frozen=True)
class Meter:
    """Reads the bytes the cell takes on its device."""

    used: Callable[[], int]
    peak: Callable[[], int]
    took: Callable[[], Took]  # all that is known of the peak, for the next estimate
    go_on: Callable[[Granted], None]  # of a training that was suspended: here, within this
    limit: Callable[[Granted], None]  # how much it may take, where it holds more or less than before


@contextmanager
def on_device(granted: Granted) -> Iterator[Meter]:
    """Let `cuda` mean what was granted, and keep the cell within its bytes."""
    kind = granted.devices[0].kind
    way = _on_none if no_device.is_held(granted) else _on_slot if kind == "slot" else _on_gpu
    with way(granted) as meter:
        yield meter


@contextmanager
def _on_none(granted: Granted) -> Iterator[Meter]:
    from ..cuda.slot import on_budget

    def stay(now: Granted) -> None:
        """There is nothing to have more or less of."""

    none = no_device.NoBudget(*_slot(granted))
    with on_budget(none):
        yield Meter(none.used, none.peak, lambda: Took(0), stay, stay)


@contextmanager
def _on_slot(granted: Granted) -> Iterator[Meter]:
    from ..cuda.slot import as_slot

    with as_slot(*_slot(granted)) as slot:

        def go_on(now: Granted) -> None:
            slot.go_on(*_slot(now))

        yield Meter(slot.used, slot.peak, lambda: Took(slot.peak()), go_on, go_on)


def _slot(granted: Granted) -> tuple[str, int, int]:
    """Its name, what of it was claimed, and all of it, in bytes."""
    return granted.devices[0].label, granted.bytes, granted.devices[0].total


@contextmanager
def _on_gpu(granted: Granted) -> Iterator[Meter]:
    _show_gpus(granted)
    import torch

    from ..devices import sides

    assert not torch.cuda.is_initialized(), "CUDA was initialised before the claim"
    here = granted
    with of_torch() as limits:

        def limit(now: Granted) -> None:
            _limit_torch(now, limits)

        def go_on(now: Granted) -> None:
            nonlocal here
            torch.cuda.synchronize()  # a device that does not answer says so here, and not in the cell
            _show_gpus(now)  # to the processes that the cell starts; this one has chosen long ago
            limit(now)
            here = now

        limit(granted)
        sides.arrive_as(sides.OnGpu())
        yield Meter(_cuda_used, _cuda_peak, lambda: _cuda_took(here.devices[0]), go_on, limit)


def _show_gpus(granted: Granted) -> None:
    # By UUID: nvidia-smi's order is not CUDA's, and a value inherited from the notebook must not win.
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(device.uuid for device in granted.devices)


def _limit_torch(granted: Granted, limits: MemoryLimits) -> None:
    import torch

    context = context_of(load_settings(), granted.devices[0].kind, granted.devices[0].name).bytes
    for index in range(len(granted.devices)):
        # Of CUDA's total, which is smaller than NVML's. Its own out-of-memory error, rather than its neighbour's.
        total = torch.cuda.mem_get_info(index)[1]
        limits.limit(min(1.0, for_torch(granted, context) / total), index)


def for_torch(granted: Granted, context: int) -> int:
    """Bytes of each device for torch's allocator: what was claimed also holds the process's context; pure.

    Who has a whole device has its reserve, too, and the context fits there.
    """
    if granted.claim.request.needed is None:
        return granted.bytes
    return max(granted.bytes - context, granted.bytes // 2)  # a claim below the context shows as the cell's own error


def _cuda_used() -> int:
    import torch

    return torch.cuda.memory_reserved() if torch.cuda.is_initialized() else 0


def _cuda_peak() -> int:
    import torch

    return torch.cuda.max_memory_reserved() if torch.cuda.is_initialized() else 0


def _cuda_took(device: Device) -> Took:
    import torch

    from ..devices.nvml import read_gpus

    if not torch.cuda.is_initialized():
        return Took(0)
    reserved, most = torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved()
    now = [one for one in read_gpus() if one.uuid == device.uuid]
    ours = [process.bytes for one in now for process in one.processes if process.pid == os.getpid()]
    # In a container the driver may count pids otherwise, or not say what a process holds.
    held = ours[0] if ours and ours[0] is not None else None
    context = held - reserved if held is not None else 0
    return Took(
        most + max(0, context), torch.cuda.max_memory_allocated(), most, most + context if context > 0 else None
    )
