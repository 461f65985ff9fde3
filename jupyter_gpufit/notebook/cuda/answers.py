"""What torch.cuda answers in a kernel: as the device that a training would get."""

from __future__ import annotations

import torch

from ...cuda.slot.answers import Answers, SlotProperties
from ...devices import sides
from ...surroundings import generators
from .expected import Expected


class NotebookAnswers(Answers):
    """Of a GPU from NVML and its data sheet; of a slot as in a worker."""

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._expected = expected

    @property
    def stands_for_gpu(self) -> bool:
        device = self._expected.device
        return device is not None and device.kind != "slot"

    def is_available(self) -> bool:
        return super().is_available() and self._expected.device is not None

    def is_initialized(self) -> bool:
        return sides.is_used

    def device_count(self) -> int:
        return int(self._expected.device is not None)

    def get_device_name(self, device: object = None) -> str:
        self._check(device)
        if self._expected.device is None:
            raise RuntimeError("No CUDA GPUs are available")
        label = self._expected.device.label
        return self._expected.card.name if self.stands_for_gpu else f"CPU slot {label}"

    def get_device_properties(self, device: object = None) -> SlotProperties:
        name = self.get_device_name(device)
        card = self._expected.card
        if not self.stands_for_gpu:
            return SlotProperties(name, self._expected.total)
        return SlotProperties(name, self._expected.total, *card.capability, card.sms, warp_size=32)

    def get_device_capability(self, device: object = None) -> tuple[int, int]:
        self._check(device)
        return self._expected.card.capability if self.stands_for_gpu else super().get_device_capability()

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or not self.stands_for_gpu or self.get_device_capability() >= (8, 0)

    def is_tf32_supported(self) -> bool:
        return self.stands_for_gpu and self.get_device_capability() >= (8, 0)

    def get_arch_list(self) -> list[str]:
        major, minor = self.get_device_capability()
        return [f"sm_{major}{minor}"] if self.stands_for_gpu else []

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        self._check(device)
        return max(0, self._expected.free() - self._expected.used()), self._expected.total

    get_memory_info = mem_get_info

    # A GPU has a sequence of its own, which begins in the worker; a slot the CPU's, as in a worker

    def manual_seed(self, seed: int) -> None:
        generators.seed_cuda(int(seed))  # a training starts from it
        if not self.stands_for_gpu:
            super().manual_seed(seed)

    manual_seed_all = manual_seed

    def seed(self) -> None:
        self.manual_seed(torch.default_generator.seed() if not self.stands_for_gpu else torch.Generator().seed())

    seed_all = seed

    def initial_seed(self) -> int:
        return int(generators.of_cuda.get("seed", 0)) if self.stands_for_gpu else super().initial_seed()
