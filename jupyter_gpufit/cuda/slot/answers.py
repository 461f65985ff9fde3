"""What a slot answers where a GPU would be asked: its memory is the budget, its random numbers are the CPU's."""

from __future__ import annotations

import time

import torch

from ...devices.card import Card
from ...errors import NotOnASlot
from ..surface.answers import Answers
from ..surface.asker import asker
from .budget import SlotRoom, give_back
from .side import side_named

# Enough to be taken for a GPU with float16, and too little to be offered Flash Attention, TF32 or FP8.
CAPABILITY = (7, 0)


class SlotAnswers(Answers):
    """The slot as a device."""

    def __init__(self, budget: SlotRoom) -> None:
        super().__init__(budget)
        self._budget = budget
        self._asked: tuple[float, float] | None = None  # when, and how long this process had computed: seconds

    @property
    def stands_for_gpu(self) -> bool:
        return False

    @property
    def slot(self) -> str:
        """For refusals; as it is called now."""
        return self._budget.slot

    @property
    def card(self) -> Card:
        return Card(f"CPU slot {self.slot}", self._budget.total, CAPABILITY, sms=1)

    def _check(self, device: object) -> None:
        if not isinstance(device, torch.Tensor | torch.Stream):
            side_named(device, self.slot)

    def is_available(self) -> bool:
        if asker().startswith("triton."):  # a kernel is to be launched, and Triton looks for its driver
            raise NotOnASlot("A Triton kernel", self.slot)
        return True

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def get_arch_list(self) -> list[str]:
        return []

    def empty_cache(self) -> None:
        give_back()

    def utilization(self, device: object = None) -> int:
        """Of the time since it was last asked: a slot computes where this process does."""
        self._check(device)
        before, self._asked = self._asked, (time.monotonic(), time.process_time())
        if before is None:
            return 0
        passed, computed = (now - then for now, then in zip(self._asked, before, strict=True))
        return round(100 * min(1.0, max(0.0, computed) / passed)) if passed else 0

    # Random numbers: the slot has the CPU's one sequence, as with device="cpu"

    def manual_seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(int(seed))

    def seed(self) -> None:
        torch.default_generator.seed()

    def initial_seed(self) -> int:
        return torch.default_generator.initial_seed()

    def get_rng_state(self, device: object = "cuda") -> torch.Tensor:
        self._check(device)
        return torch.default_generator.get_state()

    def set_rng_state(self, new_state: torch.Tensor, device: object = "cuda") -> None:
        self._check(device)
        torch.default_generator.set_state(new_state)
