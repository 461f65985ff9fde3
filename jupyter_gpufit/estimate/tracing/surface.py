"""torch.cuda as a traced cell sees it: the target card's answers, memory from the books, and silence for the rest."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from ...cuda.surface.ahead import taken_by_name
from ...cuda.surface.answers import Answers
from ...cuda.surface.replace import cuda_replacements, or_real
from ...devices.card import Card
from .books import Books


class BooksMemory:
    """Of the card, what the books say is taken."""

    def __init__(self, books: Books) -> None:
        self._books = books

    @property
    def total(self) -> int:
        return self._books.card.total

    def used(self) -> int:
        return self._books.now

    def recent_peak(self) -> int:
        return self._books.peak

    def forget_peak(self) -> None:
        """The estimate's own is wanted."""


class TraceAnswers(Answers):
    """The card for which the cell is traced; for torch itself, too."""

    def __init__(self, books: Books) -> None:
        super().__init__(BooksMemory(books))
        self._books = books

    @property
    def card(self) -> Card:
        return self._books.card

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        return True

    def current_accelerator(self, check_available: bool = False) -> torch.device | None:
        # Only torch's own code may learn that it is the stand-in.
        asker = sys._getframe(1).f_globals.get("__name__", "")
        return _REAL(check_available) if asker.startswith("torch.") else super().current_accelerator()


_REAL: Callable[..., torch.device | None] = torch.accelerator.current_accelerator


def begin(books: Books) -> None:
    ours = list(cuda_replacements(TraceAnswers(books), or_real))
    for module, name, value in [*ours, *taken_by_name(ours)]:
        setattr(module, name, value)
    for name, value in {"_lazy_init": None, "_sleep": None, "_is_in_bad_fork": False}.items():
        setattr(torch.cuda, name, lambda *args, value=value, **kwargs: value)
    _step_always()


def _step_always() -> None:
    """A guessed check for "inf" must not skip the step that we count."""

    def step(self: Any, optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    torch.amp.grad_scaler.GradScaler._maybe_opt_step = step  # type: ignore[assignment]
