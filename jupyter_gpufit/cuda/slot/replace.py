"""The functions and classes of torch that are others while a cell runs on a slot, and come back afterwards.

In torch.cuda and torch.accelerator that is all of them: answered, or refused by name. Torch's own code is passed on to
the real ones, and hears that there is no GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from types import ModuleType
from typing import Any

import torch

from ...errors import NotOnASlot
from ..types import default_type, types_on_cuda
from .answers import Answers
from .side import asked_by_torch
from .streams import NoChange, SlotEvent, SlotStream

# The modules whose names Answers knows; the same name elsewhere (nccl.is_available) means something else.
_ANSWERED = frozenset(
    ["torch.accelerator", "torch.accelerator.memory", "torch.cuda"]
    + [f"torch.cuda.{name}" for name in ("graphs", "memory", "nvtx", "random", "streams")]
)
_SAME_NAME = [("torch.accelerator", "get_device_capability")]  # the dtypes it supports, not the version CUDA tells
_CLASSES = {"Event": SlotEvent, "Stream": SlotStream, "StreamContext": NoChange}
_SPEAK_FOR_USER = ("torch.utils.data", "torch.random")  # a DataLoader pins memory; fork_rng saves the slot's state
_LEFT_ALONE = ("torch.cuda.amp", "torch.cuda.sparse")  # what hands everything to torch.amp, and types
_ABSENT = object()
_PRIVATE_BUT_USED = ("_record_memory_history", "_dump_snapshot", "_snapshot")


@contextmanager
def replaced(owner: object, name: str, value: object) -> Iterator[None]:
    """Let `owner.name` be `value` for a while."""
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def cuda_replacements(answers: Answers) -> Iterator[tuple[ModuleType, str, object]]:
    """Where, which name, and by what."""
    for name, module in sorted(sys.modules.items()):
        if (name + ".").startswith(("torch.cuda.", "torch.accelerator.")) and not name.startswith(_LEFT_ALONE):
            for public, real in _offered(module):
                yield module, public, _replacement(module, public, real, answers, answers.slot)
    for name in vars(torch.cuda):
        if name.endswith("Storage") and hasattr(torch, name):
            yield torch.cuda, name, getattr(torch, name)
    for name, kind in types_on_cuda():
        yield torch.cuda, name, kind
    yield torch, "set_default_tensor_type", default_type(torch.set_default_tensor_type)
    if not hasattr(torch._C, "_cuda_getCurrentRawStream"):  # libraries with kernels of their own ask at import
        yield torch._C, "_cuda_getCurrentRawStream", lambda device: 0


def _offered(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions and classes that torch made for users of this module."""
    package = ".".join(module.__name__.split(".")[:2])
    for name, value in vars(module).items():
        if name.startswith("_") and name not in _PRIVATE_BUT_USED:
            continue
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and not is_error and str(getattr(value, "__module__", "")).startswith(package):
            yield name, value


def _replacement(module: ModuleType, name: str, real: Callable[..., Any], answers: Answers, slot: str) -> object:
    answer = _CLASSES.get(name) or getattr(answers, name, None)
    known = module.__name__ in _ANSWERED and (module.__name__, name) not in _SAME_NAME
    ours = answer if answer and known else _refusal(f"{module.__name__}.{name}", slot)
    if isinstance(ours, type):
        return ours
    if isinstance(real, type):
        # A class stays one, for isinstance. What it makes is a refusal, or a context manager of ours.
        return type(name, (), {"__new__": lambda _, *args, **kwargs: ours(*args, **kwargs)})
    return _with_truth_for_torch(real, ours)


def _with_truth_for_torch(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return (real if asked_by_torch(*_SPEAK_FOR_USER) else ours)(*args, **kwargs)

    return answer


def _refusal(call: str, slot: str) -> Callable[..., Any]:
    def refuse(*args: object, **kwargs: object) -> Any:
        raise NotOnASlot(call, slot)

    return refuse
