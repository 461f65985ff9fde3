"""Runs a cell that was written for a GPU on a CPU slot: START HERE.

Inside `as_slot`, `cuda` in user code means the slot, on which training really runs, within a budget of memory:

side.py      which side a tensor is on, the slot's or the host's
mode.py      torch's functions (device=, .to, .cuda, x.device), by a TorchFunctionMode
answers.py   what it says of itself in torch.cuda (see ../surface); what has no answer is refused by name
around.py    autocast, threads, backward, the default device, torch.compile
files.py     torch.save and torch.load
first_calls.py  functions whose very first call may come out otherwise
half.py      convolutions of float16, for which a CPU has no quick way
budget.py    the memory that the cell takes, and the error that ends it

What a slot cannot show: that tensors of both sides met in one operation, how fast a GPU is, and what fits on one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from ...devices import sides
from ..surface.ahead import taken_by_name
from ..surface.replace import cuda_replacements, or_refused, replaced
from .answers import SlotAnswers
from .around import run_uncompiled, torch_replacements
from .budget import Budget
from .files import loading
from .first_calls import settle
from .mode import SlotMode

__all__ = ["Budget", "SlotAnswers", "SlotMode", "as_slot", "on_budget", "standing_in"]


@contextmanager
def as_slot(name: str, budget: int, whole: int = 0) -> Iterator[Budget]:
    """Let `cuda` mean the slot `name`, and keep the process from growing by more than `budget` bytes of its `whole`.

    To be entered in the main thread; threads and forked processes that start meanwhile are on the slot too. The values
    of the cell should be loaded inside, so that what they imported by name from torch.cuda is the slot's.
    """
    watched = Budget(name, budget, whole)
    with on_budget(watched):
        sides.is_used = True
        yield watched


@contextmanager
def on_budget(watched: Budget) -> Iterator[None]:
    """The same on a budget of another kind, with nothing on it as yet."""
    with standing_in(SlotMode(watched), SlotAnswers(watched)), watched.watched():
        yield


@contextmanager
def standing_in(mode: SlotMode, answers: SlotAnswers) -> Iterator[None]:
    """Let `cuda` mean what `mode` takes it for and `answers` answers for, in this process; no memory is watched."""
    settle()
    with ExitStack() as stack:
        compiling = stack.enter_context(ExitStack())
        if "torch._dynamo" in sys.modules:  # a model may have come compiled; importing the compiler would take seconds
            run_uncompiled(compiling)
        ours = [
            *cuda_replacements(answers, or_refused(lambda: answers.slot)),
            *torch_replacements(mode, compiling),
        ]
        for replacement in [*ours, *taken_by_name(ours)]:
            stack.enter_context(replaced(*replacement))
        stack.enter_context(_no_gpus())
        stack.enter_context(loading(mode.budget.slot, lambda: answers.stands_for_gpu))
        stack.enter_context(_telling_sides())
        stack.enter_context(mode)
        yield


@contextmanager
def _telling_sides() -> Iterator[None]:
    before, sides.is_told = sides.is_told, True
    try:
        yield
    finally:
        sides.is_told = before


@contextmanager
def _no_gpus() -> Iterator[None]:
    """Show no GPU to the programs that the cell starts, which would take one without a claim."""
    before = os.environ.get("CUDA_VISIBLE_DEVICES")
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    try:
        yield
    finally:
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)  # the cell may have removed it
        if before is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = before
