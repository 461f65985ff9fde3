"""The functions and classes of torch.cuda and torch.accelerator that are others while `cuda` means something else.

On a slot and in a kernel that is all of them: answered, or refused by name. Torch's own code is passed on to the real
ones, and hears that there is no GPU: it computes on the CPU. In a trace torch itself must take the stand-in for a GPU;
what has no answer there stays as it is.
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
from .asker import asked_by_torch
from .parallel import parallel_on_one
from .streams import NoChange, OneEvent, OneStream

# The modules whose names Answers knows; the same name elsewhere (nccl.is_available) means something else.
_ANSWERED = frozenset(
    ["torch.accelerator", "torch.accelerator.memory", "torch.cuda"]
    + [f"torch.cuda.{name}" for name in ("graphs", "memory", "nvtx", "random", "streams")]
)
_SAME_NAME = [("torch.accelerator", "get_device_capability")]  # the dtypes it supports, not the version CUDA tells
_CLASSES = {"Event": OneEvent, "Stream": OneStream, "StreamContext": NoChange}
_SPEAK_FOR_USER = ("torch.utils.data", "torch.random")  # a DataLoader pins memory; fork_rng saves the slot's state
_LEFT_ALONE = ("torch.cuda.amp", "torch.cuda.sparse")  # what hands everything to torch.amp, and types
_ABSENT = object()
RAW_STREAM = "_cuda_getCurrentRawStream"
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


Around = Callable[[str, Callable[..., Any], Any], Any]  # a function's full name, the real one, and ours if there is one


def cuda_replacements(answers: Answers, around: Around) -> Iterator[tuple[object, str, object]]:
    """Where, which name, and by what. `around` tells what to put there."""
    for module in modules_of_cuda():
        for public, real in offered(module):
            yield module, public, _replacement(module, public, real, answers, around)
    for name in vars(torch.cuda):
        if name.endswith("Storage") and hasattr(torch, name):
            yield torch.cuda, name, getattr(torch, name)
    yield from types_on_cuda()
    yield torch.cuda, "default_generators", (torch.default_generator,)  # which manual_seed() seeds, too
    yield torch, "set_default_tensor_type", default_type(torch.set_default_tensor_type)
    yield from parallel_on_one()
    # Libraries with kernels of their own ask at import; a build for CUDA would ask the driver.
    yield torch._C, RAW_STREAM, raw_stream


def raw_stream(device: int) -> int:
    """The handle of the only one."""
    return 0


def modules_of_cuda() -> list[ModuleType]:
    """Those whose functions are others; in their order."""
    names = (name for name in sorted(sys.modules) if (name + ".").startswith(("torch.cuda.", "torch.accelerator.")))
    return [sys.modules[name] for name in names if not name.startswith(_LEFT_ALONE)]


def offered(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions and classes that torch made for users of this module."""
    package = ".".join(module.__name__.split(".")[:2])
    for name, value in vars(module).items():
        if name.startswith("_") and name not in _PRIVATE_BUT_USED:
            continue
        is_error = isinstance(value, type) and issubclass(value, BaseException)
        if callable(value) and not is_error and str(getattr(value, "__module__", "")).startswith(package):
            yield name, value


def _replacement(module: ModuleType, name: str, real: Callable[..., Any], answers: Answers, around: Around) -> object:
    known = module.__name__ in _ANSWERED and (module.__name__, name) not in _SAME_NAME
    answer = (_CLASSES.get(name) or getattr(answers, name, None)) if known else None
    ours = around(f"{module.__name__}.{name}", real, answer)
    if isinstance(ours, type) or ours is real:
        return ours
    if isinstance(real, type):
        # A class stays one, for isinstance. What it makes is a refusal, or a context manager of ours.
        return type(name, (), {"__new__": lambda _, *args, **kwargs: ours(*args, **kwargs)})
    return ours


def or_refused(slot: Callable[[], str]) -> Around:
    """Ours for the user, with a refusal by name for what has no answer; the real one for torch."""

    def around(call: str, real: Callable[..., Any], ours: Any) -> Any:
        def refuse(*args: object, **kwargs: object) -> Any:
            raise NotOnASlot(call, slot())

        chosen = ours or refuse
        return chosen if isinstance(real, type) or isinstance(chosen, type) else _with_truth_for_torch(real, chosen)

    return around


def or_real(call: str, real: Callable[..., Any], ours: Any) -> Any:
    """Ours for everybody, where there is an answer."""
    return ours or real


def _with_truth_for_torch(real: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def answer(*args: Any, **kwargs: Any) -> Any:
        return (real if asked_by_torch(*_SPEAK_FOR_USER) else ours)(*args, **kwargs)

    return answer
