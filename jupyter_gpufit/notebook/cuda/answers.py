"""What torch.cuda answers in a kernel: as the device that a training would get."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...cuda.slot.answers import SlotAnswers
from ...cuda.surface.answers import Answers
from ...devices import sides
from ...devices.card import Card
from ...surroundings import generators
from .expected import Expected


class NotebookAnswers(SlotAnswers):
    """Of a GPU from NVML and its data sheet; of a slot as in a worker."""

    def __init__(self, expected: Expected) -> None:
        super().__init__(expected)
        self._expected = expected

    @property
    def stands_for_gpu(self) -> bool:
        device = self._expected.device
        return device is not None and device.kind != "slot"

    @property
    def card(self) -> Card:
        if self._expected.device is None:
            raise RuntimeError("No CUDA GPUs are available")
        if self.stands_for_gpu:
            return self._expected.card
        return replace(super().card, name=f"CPU slot {self._expected.device.label}")

    def is_available(self) -> bool:
        return super().is_available() and self._expected.device is not None

    def is_initialized(self) -> bool:
        return sides.is_used

    def device_count(self) -> int:
        return int(self._expected.device is not None)

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return including_emulation or not self.stands_for_gpu or self.card.capability >= (8, 0)

    def get_arch_list(self) -> list[str]:
        return Answers.get_arch_list(self) if self.stands_for_gpu else []

    def mem_get_info(self, device: object = None) -> tuple[int, int]:
        self._check(device)
        return max(0, self._expected.free() - self._expected.used()), self._expected.total

    get_memory_info = mem_get_info

    # A GPU has a sequence of its own, which begins in the worker; a slot the CPU's, as in a worker

    def manual_seed(self, seed: int) -> None:
        generators.seed_cuda(int(seed))  # a training starts from it
        if not self.stands_for_gpu:
            super().manual_seed(seed)

    def seed(self) -> None:
        self.manual_seed(torch.default_generator.seed() if not self.stands_for_gpu else torch.Generator().seed())

    def initial_seed(self) -> int:
        return int(generators.of_cuda.get("seed", 0)) if self.stands_for_gpu else super().initial_seed()
