"""What a slot answers where a GPU would be asked: one method for each function of torch.cuda and torch.accelerator that
can be answered, under the name it has there. Whatever has no method here is refused by name (see replace.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ...errors import NotOnASlot
from ...units import format_bytes
from .budget import SlotRoom, give_back
from .side import SLOT, asker, side_named
from .streams import NoChange, SlotStream

# Enough to be taken for a GPU with float16, and too little to be offered Flash Attention, TF32 or FP8.
CAPABILITY = (7, 0)


@dataclass(frozen=True)
class SlotProperties:
    name: str
    total_memory: int  # bytes
    major: int = CAPABILITY[0]
    minor: int = CAPABILITY[1]
    multi_processor_count: int = 1
    warp_size: int = 1
    is_integrated: int = 0
    is_multi_gpu_board: int = 0


class Answers:
    """The slot as a device: there is one, it is chosen, and its memory is the budget."""

    def __init__(self, budget: SlotRoom) -> None:
        self._budget = budget
        self.slot = budget.slot
        self._fraction = 1.0

    @property
    def stands_for_gpu(self) -> bool:
        return False

    def _check(self, device: object) -> None:
        """Refuse a second device; some functions take a tensor or a stream in place of a device."""
        if not isinstance(device, torch.Tensor | torch.Stream):
            side_named(device, self._budget.slot)

    # Which devices there are

    def is_available(self) -> bool:
        if asker().startswith("triton."):  # a kernel is to be launched, and Triton looks for its driver
            raise NotOnASlot("A Triton kernel", self._budget.slot)
        return True

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    current_device_index = current_device_idx = current_device

    def current_accelerator(self, check_available: bool = False) -> torch.device:
        return torch.device(SLOT.type)

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
        return f"CPU slot {self._budget.slot}"

    def get_device_properties(self, device: object = None) -> SlotProperties:
        return SlotProperties(self.get_device_name(device), self._budget.total)

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        self._check(device)
        return CAPABILITY

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def is_tf32_supported(self) -> bool:
        return False

    def get_arch_list(self) -> list[str]:
        return []

    # Order

    def synchronize(self, device: object = None) -> None:
        self._check(device)

    def current_stream(self, device: object = None) -> SlotStream:
        self._check(device)
        return SlotStream()

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
        return self._budget.used()

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: object = None) -> int:
        self._check(device)
        return self._budget.recent_peak()

    max_memory_reserved = max_memory_allocated

    def reset_peak_memory_stats(self, device: object = None) -> None:
        self._check(device)
        self._budget.forget_peak()

    reset_max_memory_allocated = reset_peak_memory_stats

    def reset_accumulated_memory_stats(self, device: object = None) -> None:
        """Nothing is accumulated."""

    def empty_cache(self) -> None:
        give_back()

    def ipc_collect(self) -> None:
        """No other process can hold memory of a slot."""

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        used = self.memory_allocated(device)
        return max(0, self._budget.total - used), self._budget.total

    get_memory_info = mem_get_info

    def memory_stats(self, device: object = None) -> dict[str, int]:
        now, most = self.memory_allocated(device), self.max_memory_allocated(device)
        kinds = ("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes")
        return {f"{kind}.all.current": now for kind in kinds} | {f"{kind}.all.peak": most for kind in kinds}

    def memory_summary(self, device: object = None, abbreviated: bool = False) -> str:
        now, most = format_bytes(self.memory_allocated(device)), format_bytes(self.max_memory_allocated(device))
        return f"{self.get_device_name()}: {now} in use, {most} at most, of {format_bytes(self._budget.total)}"

    def set_per_process_memory_fraction(self, fraction: float, device: object = None) -> None:
        """A limit of the cell's own, beside the one it has."""
        self._check(device)
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._fraction = fraction

    def get_per_process_memory_fraction(self, device: object = None) -> float:
        self._check(device)
        return self._fraction

    # Random numbers: the slot has the CPU's one sequence, as with device="cpu"

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    manual_seed_all = manual_seed

    def seed(self) -> None:
        torch.default_generator.seed()

    seed_all = seed

    def initial_seed(self) -> int:
        return torch.default_generator.initial_seed()

    def get_rng_state(self, device: object = "cuda") -> torch.Tensor:
        self._check(device)
        return torch.default_generator.get_state()

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [torch.default_generator.get_state()]

    def set_rng_state(self, new_state: torch.Tensor, device: object = "cuda") -> None:
        self._check(device)
        torch.default_generator.set_state(new_state)

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        for state in new_states:
            torch.default_generator.set_state(state)

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
