"""What torch.cuda and torch.accelerator answer where `cuda` means something else.

One method for each of their functions that can be answered, under the name it has there (see replace.py). A slot, a
kernel and a trace say what differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import torch

from ...devices.card import Card
from ...units import format_bytes
from .streams import NoChange, OneStream


class DeviceMemory(Protocol):
    """Counts what a cell has on its device, in bytes."""

    @property
    def total(self) -> int:
        """All that there is."""

    def used(self) -> int:
        """Now."""

    def recent_peak(self) -> int:
        """At the most, since `forget_peak`."""

    def forget_peak(self) -> None:
        """Count from now on."""


@dataclass(frozen=True)
class DeviceProperties:
    name: str
    total_memory: int  # bytes
    major: int
    minor: int
    multi_processor_count: int
    warp_size: int = 32
    gcnArchName: str = ""
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    max_threads_per_multi_processor: int = 2048
    regs_per_multiprocessor: int = 65536


class Answers:
    """One device, which is chosen; its random numbers are nobody's."""

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._fraction = 1.0

    @property
    def card(self) -> Card:
        """As what it answers."""
        raise NotImplementedError

    def _check(self, device: object) -> None:
        """Whether there is such a device; some functions take a tensor or a stream in place of one."""

    # Which devices there are

    def is_available(self) -> bool:
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    current_device_index = current_device_idx = current_device

    def current_accelerator(self, check_available: bool = False) -> torch.device | None:
        return torch.device("cuda")

    def is_initialized(self) -> bool:
        return True

    def init(self) -> None:
        """Nothing to prepare."""

    def set_device(self, device: object) -> None:
        self._check(device)

    set_device_index = set_device_idx = set_device

    def device(self, device: object) -> NoChange:
        self._check(device)
        return NoChange(device)

    device_of = device_index = device

    def get_device_name(self, device: object = None) -> str:
        self._check(device)
        return self.card.name

    def get_device_properties(self, device: object = None) -> DeviceProperties:
        self._check(device)
        return DeviceProperties(self.card.name, self._memory.total, *self.card.capability, self.card.sms)

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        self._check(device)
        return self.card.capability

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or self.card.capability >= (8, 0)

    def is_tf32_supported(self) -> bool:
        return self.card.capability >= (8, 0)

    def get_arch_list(self) -> list[str]:
        major, minor = self.card.capability
        return [f"sm_{major}{minor}"]

    # Order

    def synchronize(self, device: object = None) -> None:
        self._check(device)

    def current_stream(self, device: object = None) -> OneStream:
        self._check(device)
        return OneStream()

    default_stream = current_stream

    def stream(self, stream: object) -> NoChange:
        return NoChange(stream)

    def set_stream(self, stream: object) -> None:
        """There is one."""

    def is_current_stream_capturing(self) -> bool:
        return False

    # Memory

    def memory_allocated(self, device: object = None) -> int:
        self._check(device)
        return self._memory.used()

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: object = None) -> int:
        self._check(device)
        return self._memory.recent_peak()

    max_memory_reserved = max_memory_allocated

    def reset_peak_memory_stats(self, device: object = None) -> None:
        self._check(device)
        self._memory.forget_peak()

    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    def reset_accumulated_memory_stats(self, device: object = None) -> None:
        """Nothing is accumulated."""

    def empty_cache(self) -> None:
        """Nothing is kept."""

    def ipc_collect(self) -> None:
        """No other process can hold memory of it."""

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        used = self.memory_allocated(device)
        return max(0, self._memory.total - used), self._memory.total

    get_memory_info = mem_get_info

    def memory_stats(self, device: object = None) -> dict[str, int]:
        now, most = self.memory_allocated(device), self.max_memory_allocated(device)
        kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        current = {f"{kind}.all.current": now for kind in kinds} | {f"{kind}.all.peak": most for kind in kinds}
        return current | {"num_alloc_retries": 0, "num_ooms": 0}

    def memory_summary(self, device: object = None, abbreviated: bool = False) -> str:
        now, most = format_bytes(self.memory_allocated(device)), format_bytes(self.max_memory_allocated(device))
        return f"{self.get_device_name()}: {now} in use, peak {most}, of {format_bytes(self._memory.total)}"

    def set_per_process_memory_fraction(self, fraction: float, device: object = None) -> None:
        """A limit of the cell's own, beside the one it has."""
        self._check(device)
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._fraction = fraction

    def get_per_process_memory_fraction(self, device: object = None) -> float:
        self._check(device)
        return self._fraction

    def utilization(self, device: object = None) -> int:
        """In percent."""
        self._check(device)
        return 0

    # Random numbers

    def manual_seed(self, seed: int) -> None: ...

    def manual_seed_all(self, seed: int) -> None:
        self.manual_seed(seed)

    def seed(self) -> None: ...

    def seed_all(self) -> None:
        self.seed()

    def initial_seed(self) -> int:
        return 0

    def get_rng_state(self, device: object = "cuda") -> torch.Tensor:
        return torch.zeros(16, dtype=torch.uint8)

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [self.get_rng_state()]

    def set_rng_state(self, new_state: torch.Tensor, device: object = "cuda") -> None: ...

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        for state in new_states:
            self.set_rng_state(state)

    # Marks for a GPU profiler, which on a GPU too are nothing unless one listens

    def mark(self, msg: str) -> None: ...

    def range(self, msg: str, *args: object, **kwargs: object) -> NoChange:
        return NoChange(msg)

    def range_push(self, msg: str) -> int:
        return 0

    def range_pop(self) -> int:
        return 0

    def range_start(self, msg: str) -> int:
        return 0

    def range_end(self, range_id: int) -> None: ...
