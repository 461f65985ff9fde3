"""Which side a tensor is on: the slot's or the host's. All memory is the CPU's, so the difference is only a note on it.

The note is kept on the tensor's storage, so that views share it and it dies with the memory. It is there for what a
copy between host and GPU would have separated: `best = {k: v.cpu() for k, v in model.state_dict().items()}` must not
follow the training, and `x = batch.to("cuda"); x += 1` must leave the batch alone. What is computed from a tensor on
the slot gets the slot's note; all that carries none (a loader's batch, what was computed on the host) is the host's.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from ...devices import sides
from ...devices.sides import NOTE, Side
from ...errors import NotOnASlot

SLOT = torch.device("cuda", 0)  # what user code is told
CPU = torch.device("cpu")  # what torch is told

# What the default device "cuda" becomes. Torch takes it for the CPU, and it still differs from a default of "cpu".
CPU_AS_DEFAULT = torch.device("cpu", 0)


def any_on_slot() -> bool:
    """Whether anything may be on the slot in this process: until then nothing need be looked at."""
    return sides.is_used


def side_of(tensor: object) -> Side | None:
    """The side the tensor is known to be on, or None where it carries no note."""
    for storage in _storages_of(tensor):
        return getattr(storage, NOTE, None)
    return None


def note(memory: torch.Tensor | torch.UntypedStorage, side: Side | None) -> None:
    """Note the side of a tensor's memory."""
    if side is None:
        return
    for storage in _storages_of(memory) if isinstance(memory, torch.Tensor) else [memory]:
        setattr(storage, NOTE, side)
        sides.is_used = sides.is_used or side == "slot"


def _storages_of(tensor: object) -> Iterable[torch.UntypedStorage]:
    if not isinstance(tensor, torch.Tensor):
        return ()  # what torch's functions take for one: tensordict's
    try:
        if type(tensor) in _PLAIN:
            return (tensor.untyped_storage(),)
        with torch._C.DisableTorchFunctionSubclass():  # a lazy parameter refuses; others need not see that we look
            return (tensor.untyped_storage(),)
    except (NotImplementedError, RuntimeError):
        return [part.untyped_storage() for part in _parts_of(tensor)]


def _parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """Of a sparse one; nested and vmapped tensors show none."""
    try:
        with torch._C.DisableTorchFunction():
            return sides.parts(tensor)
    except (NotImplementedError, RuntimeError):
        return []


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def side_named(device: object, slot: str) -> Side | None:
    """The side that a `device` argument names; None for no device, and for meta."""
    if device is None:
        return None
    named = device if isinstance(device, str | torch.device) else str(device)  # an enum may be a str, and print another
    found = torch.device("cuda", device) if isinstance(device, int) else torch.device(named)
    if found.type == "cuda" and (found.index or 0) > 0:
        raise NotOnASlot(
            f"The device {found}", slot, "invalid device ordinal: the slot is the only device and is cuda:0."
        )
    return "slot" if found.type == "cuda" else "host" if found.type == "cpu" else None
