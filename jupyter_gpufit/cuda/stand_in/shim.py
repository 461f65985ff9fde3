"""The function mode in which `cuda` means the stand-in. Torch's own Python wrappers turn modes off, see `whole.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...devices.card import Card
from .attention import attention
from .device import STAND_IN, is_cuda, mapped, on_stand_in

_has_cuda = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


class CudaShim(TorchFunctionMode):
    """Takes `cuda` for the stand-in in every call of torch's functions; `kernels` stand for some of them."""

    def __init__(self, card: Card, kernels: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__()
        self._special: dict[Any, Callable[..., Any]] = {
            torch.Tensor.cuda: lambda t, *args, **kwargs: t.to(torch.device(STAND_IN, 0)),
            torch.Tensor.pin_memory: lambda t, *args, **kwargs: t,
            torch.Tensor.is_pinned: lambda t, *args, **kwargs: False,
            torch.Tensor.record_stream: lambda t, *args: None,
            torch.Tensor.get_device: lambda t: 0 if t.device.type == STAND_IN else -1,
            torch.nn.functional.scaled_dot_product_attention: lambda *a, **k: attention(card, *a, **k),
            torch.device: torch.device,  # torch.device("cuda") stays what the user wrote
            **kernels,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "__get__":
            return _property(func, args, kwargs)
        if (special := self._special.get(func)) is not None:
            return special(*args, **kwargs)
        if kwargs:
            kwargs = _options(args, kwargs)
        return func(*[mapped(arg) for arg in args], **kwargs)


def _property(func: Any, args: Any, kwargs: Any) -> Any:
    value = func(*args, **kwargs)
    if isinstance(value, torch.device) and value.type == STAND_IN:
        return torch.device("cuda", 0)
    if value is False and func == _has_cuda:  # `==`: each access makes a new wrapper
        return args[0].device.type == STAND_IN
    return value


def _options(args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    kwargs = dict(kwargs)
    if kwargs.get("generator") is not None and (is_cuda(kwargs.get("device")) or any(map(on_stand_in, args[:1]))):
        kwargs["generator"] = None  # a CPU's would be refused
    if "device" in kwargs:
        kwargs["device"] = mapped(kwargs["device"])
    if kwargs.get("pin_memory"):
        kwargs["pin_memory"] = False
    return kwargs
