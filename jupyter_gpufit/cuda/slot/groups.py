"""torch.distributed on a slot: a program for several GPUs that is run on one begins a group of itself alone.

It asks for NCCL, which connects GPUs. On a slot gloo does the same, for there the tensors are in the host's memory; and
torch, which sees them there, would refuse the devices' numbers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .side import side_named

_STAYS = "torch.distributed: a group stays in the notebook's own process. For a training, begin it in its cell."


def groups_on(slot: str) -> Iterator[tuple[object, str, object]]:
    """Where, which name, and by what."""
    for begin in (dist.init_process_group, dist.new_group):
        yield dist, begin.__name__, _over_gloo(begin, slot)
    yield dist, "barrier", _without(dist.barrier, "device_ids")
    begun = DistributedDataParallel.__init__
    yield DistributedDataParallel, "__init__", _without(begun, "device_ids", "output_device")


def _over_gloo(real: Callable[..., Any], slot: str) -> Callable[..., Any]:
    @wraps(real)
    def begin(*args: Any, **kwargs: Any) -> Any:
        if not slot:
            warnings.warn(_STAYS, stacklevel=2)
        device = kwargs.get("device_id")
        if device is not None and side_named(device, slot) == "slot":
            del kwargs["device_id"]
        return real(*map(_gloo, args), **{name: _gloo(value) for name, value in kwargs.items()})

    return begin


def _gloo(value: Any) -> Any:
    """A backend's name, or any other argument as it is."""
    return "gloo" if isinstance(value, str) and value.split(":")[-1] == "nccl" else value


def _without(real: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Of these arguments, which name devices, none is given."""

    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        return real(*args, **{name: value for name, value in kwargs.items() if name not in names})

    return call
