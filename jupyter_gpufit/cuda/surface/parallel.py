"""nn.DataParallel where `cuda` means something else: of one device, as where there is one GPU.

Torch's own asks as torch which devices there are. It would hear of none on a slot, and leave the model and its inputs
where they are; in a trial run it would compare `cuda:0` with the stand-in.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DataParallel

_ONE = torch.device("cuda", 0)


def parallel_on_one() -> Iterator[tuple[object, str, object]]:
    """Where, which name, and by what."""
    yield DataParallel, "__init__", _begin
    yield DataParallel, "forward", _forward
    real: Any = torch.nn.parallel.data_parallel
    ours = _function(real)
    yield torch.nn.parallel, "data_parallel", ours
    yield sys.modules[real.__module__], "data_parallel", ours


def _begin(
    self: Any, module: nn.Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0
) -> None:
    nn.Module.__init__(self)
    if device_ids is not None and len(device_ids) > 1:
        warnings.warn(f"nn.DataParallel: there is one device here, not {len(device_ids)}.", stacklevel=2)
    self.dim, self.module = dim, module
    self.device_ids, self.output_device, self.src_device_obj = [0], 0, _ONE
    module.to(_ONE)


def _forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    if not self.device_ids:  # it was made where there was no device
        return self.module(*inputs, **kwargs)
    return self.module(*_there(inputs), **_there(kwargs))


def _function(real: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(real)
    def data_parallel(
        module: nn.Module,
        inputs: Any,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        module_kwargs: Any = None,
    ) -> Any:
        given = inputs if isinstance(inputs, tuple) else () if inputs is None else (inputs,)
        return module(*_there(given), **_there(module_kwargs or {}))

    return data_parallel


def _there(value: Any) -> Any:
    """What the model is given, with the tensors in it on the device; new containers, as torch makes."""
    if isinstance(value, torch.Tensor):
        return value.to(_ONE)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_there, value))
    for kind in (tuple, list):
        if isinstance(value, kind):
            return kind(map(_there, value))
    if isinstance(value, dict) and value:
        return type(value)((key, _there(one)) for key, one in value.items())
    return value
