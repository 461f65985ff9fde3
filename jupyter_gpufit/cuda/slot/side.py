"""Which side a tensor is on: the slot's or the host's. All memory is the CPU's, so the difference is only a note on it.

The note is kept on the tensor's storage, so that views share it and it dies with the memory. It is there for what a
copy between host and GPU would have separated: `best = {k: v.cpu() for k, v in model.state_dict().items()}` must not
follow the training, and `x = batch.to("cuda"); x += 1` must leave the batch alone. Results of operations carry no note
(that would cost every operation): they count as the slot's when they are looked at, and are copied when they are moved.
"""

from __future__ import annotations

import sys
from typing import Literal

import torch

from ...errors import NotOnASlot

Side = Literal["slot", "host"]

SLOT = torch.device("cuda", 0)  # what user code is told
CPU = torch.device("cpu")  # what torch is told

# What the default device "cuda" becomes. Torch takes it for the CPU, and it still differs from a default of "cpu".
CPU_AS_DEFAULT = torch.device("cpu", 0)

_NOTE = "_gpufit_side"
_is_used = False  # something has been put on the slot in this process; until then, all results are the host's
_BETWEEN = ("jupyter_gpufit.cuda.slot", "torch.utils._device")  # modes through which a question passes


def side_of(tensor: torch.Tensor) -> Side | None:
    """The side the tensor is known to be on, or None for a result that carries no note."""
    try:
        side: Side | None = getattr(tensor.untyped_storage(), _NOTE, None)
    except (NotImplementedError, RuntimeError):
        return None  # sparse, nested and vmapped tensors have no storage
    if side is None and not _is_used:
        return "host"
    # What has a history was computed from the model, which is on the slot. This spares `.to(device)` inside a model
    # a copy for each activation.
    return "slot" if side is None and tensor.grad_fn is not None else side


def note(memory: torch.Tensor | torch.UntypedStorage, side: Side | None) -> None:
    """Note the side of a tensor's memory."""
    if side is None:
        return
    try:
        storage = memory.untyped_storage() if isinstance(memory, torch.Tensor) else memory
    except (NotImplementedError, RuntimeError):
        return
    global _is_used
    _is_used = _is_used or side == "slot"
    setattr(storage, _NOTE, side)


def side_named(device: object, slot: str) -> Side | None:
    """The side that a `device` argument names; None for no device, and for meta."""
    if device is None:
        return None
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(str(device))
    if found.type == "cuda" and (found.index or 0) > 0:
        raise NotOnASlot(
            f"The device {found}", slot, "invalid device ordinal: the slot is the only device and is cuda:0."
        )
    return "slot" if found.type == "cuda" else "host" if found.type == "cpu" else None


def asked_by_torch(*but_not: str) -> bool:
    """Whether torch (or this package) asks, and not the user's code, a library of theirs, or a module of `but_not`.

    Torch must see the CPU, to choose as it would have chosen for the CPU, bit for bit. Some of its modules only pass on
    what the user said.
    """
    module = asker()
    return module.startswith(("torch.", "jupyter_gpufit.")) and not module.startswith(but_not)


def asker() -> str:
    """The module of the innermost frame that is not a mode's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_BETWEEN):
        frame = frame.f_back
    # With the dot, torch itself is found by the prefix that excludes torchvision.
    return f"{frame.f_globals.get('__name__')}."
