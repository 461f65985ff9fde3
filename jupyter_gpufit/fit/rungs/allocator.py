"""The allocator: torch keeps one segment that grows instead of many of fixed sizes, so that less lies idle. Exact.

Only `expandable_segments`, alone: with other options it has ended trainings and, on some cards, spoilt numbers.
Not where a cell shares its tensors with other processes, which cannot open such a segment. That no more than the claim
is taken is said to torch for every job (worker/on_device.py), with this rung or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TypedDict

import torch

from ..plan import Facts, Notch

NAME = "allocator"
EXACT = True
STEEP = False
REPLACES: tuple[str, ...] = ()
OPTION = "expandable_segments:True"
_VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # before torch 2.9 it knows the second alone
_LEAST = 0.02  # of the peak; what saves less is not worth a trial run


class AllocatorConf(TypedDict):
    """What a notch says."""

    conf: str


def notches(facts: Facts) -> list[Notch]:
    """There is one."""
    if why_not(facts):
        return []
    return [Notch(AllocatorConf(conf=OPTION), "letting torch's memory grow in one piece")]


def why_not(facts: Facts) -> str:
    """Why there is none."""
    if facts.shares:
        return "the cell shares its tensors with other processes"
    return "torch's allocator leaves little idle" if facts.idle <= _LEAST * facts.peak else ""


def environment(parts: Mapping[str, AllocatorConf], env: Mapping[str, str]) -> Mapping[str, str]:
    """What the allocator reads under a plan."""
    return env if NAME not in parts else {**env, **dict.fromkeys(_VARIABLES, parts[NAME]["conf"])}


@contextmanager
def around(part: AllocatorConf) -> Iterator[None]:
    """Tell torch; a trial run has no allocator, and its replay reads the plan."""
    if torch.backends.cuda.is_built() and torch.cuda.is_initialized():
        _tell_torch(part["conf"])
    yield


def _tell_torch(conf: str) -> None:
    if hasattr(torch._C, "_accelerator_setAllocatorSettings"):
        torch._C._accelerator_setAllocatorSettings(conf)
    else:  # before torch 2.9
        torch.cuda.memory._set_allocator_settings(conf)
