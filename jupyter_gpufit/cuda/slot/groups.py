"""torch.distributed on a slot: a program for several GPUs that is run on one begins a group of itself alone.

It asks for NCCL, which connects GPUs. On a slot gloo does the same, for there the tensors are in the host's memory; and
torch, which sees them there, would refuse the devices' numbers.
"""

from __future__ import annotations

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .side import side_named

_FLAT = (  # as they are called now, and as they were
    *("all_gather_single", "reduce_scatter_single", "all_gather_into_tensor", "reduce_scatter_tensor"),
    *("_all_gather_base", "_reduce_scatter_base"),
)
_STAYS = "torch.distributed: a group stays in the notebook's own process. For a training, begin it in its cell."


def groups_on(slot: str) -> Iterator[tuple[object, str, object]]:
    """Where, which name, and by what."""
    for begin in (dist.init_process_group, dist.new_group):
        yield dist, begin.__name__, _over_gloo(begin, slot)
    for name in _FLAT:
        if hasattr(dist, name):
            yield dist, name, _flat(getattr(dist, name))
    yield dist, "barrier", _without_devices(dist.barrier)
    yield DistributedDataParallel, "__init__", _without_devices(DistributedDataParallel.__init__)


def _over_gloo(real: Callable[..., Any], slot: str) -> Callable[..., Any]:
    def changed(given: dict[str, Any]) -> None:
        if not slot:
            warnings.warn(_STAYS, stacklevel=4)
        device = given.get("device_id")
        if device is not None and side_named(device, slot) == "slot":
            del given["device_id"]
        if isinstance(backend := given.get("backend"), str):
            given["backend"] = gloo_for_nccl(backend)

    return _with_arguments(real, changed)


def gloo_for_nccl(backend: str) -> str:
    """Also among several, one for each kind of device: `cpu:gloo,cuda:nccl`."""
    return re.sub(r"\bnccl\b", "gloo", backend, flags=re.IGNORECASE)


def _flat(real: Callable[..., Any]) -> Callable[..., Any]:
    """NCCL goes by the number of values alone; gloo by shapes, too, where only one of the two tensors is flat."""

    def changed(given: dict[str, Any]) -> None:
        for name, tensor in given.items():
            if name.startswith(("output", "input")) and isinstance(tensor, torch.Tensor) and tensor.is_contiguous():
                given[name] = tensor.view(-1)

    return _with_arguments(real, changed)


def _without_devices(real: Callable[..., Any]) -> Callable[..., Any]:
    """Of the arguments that name devices none is given."""

    def changed(given: dict[str, Any]) -> None:
        for name in ("device_ids", "output_device"):
            given.pop(name, None)

    return _with_arguments(real, changed)


def _with_arguments(real: Callable[..., Any], changed: Callable[[dict[str, Any]], None]) -> Callable[..., Any]:
    """Called with its arguments by their names, wherever they stand in the call."""
    signature = inspect.signature(real)

    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:  # which it says itself
            return real(*args, **kwargs)
        changed(bound.arguments)
        return real(*bound.args, **bound.kwargs)

    return call
