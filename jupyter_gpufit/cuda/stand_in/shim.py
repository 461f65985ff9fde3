"""The function mode in which `cuda` means the stand-in. Torch's own Python wrappers turn modes off, see `whole.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ...devices.card import Card
from ..types import names_cuda, on_host
from .attention import attention
from .device import STAND_IN, is_cuda, mapped, on_stand_in

# What makes a tensor of Python's numbers.
_MAKERS = frozenset({torch.tensor, torch.as_tensor, torch.asarray})
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
            torch.Tensor.type: _type,
            torch.ctc_loss: _ctc_loss,
            torch.device: torch.device,  # torch.device("cuda") stays what the user wrote
            **kernels,
        }

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "__get__":
            return _property(func, args, kwargs)
        if (special := self._special.get(func)) is not None:
            return special(*args, **kwargs)
        if func in _MAKERS and args:
            args = (_with_values(args[0]), *args[1:])
        if kwargs:
            kwargs = _options(args, kwargs)
        return func(*[mapped(arg) for arg in args], **kwargs)


def _with_values(data: Any) -> Any:
    """Lists of tensors, which would be asked for their values behind our back."""
    if type(data) not in (list, tuple):
        return data
    return [one.tolist() if on_stand_in(one) else _with_values(one) for one in data]


def _ctc_loss(probabilities: Any, targets: Any, inputs: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
    """With lengths as numbers, from which the shapes follow; those on the device as the longest possible."""
    longest = probabilities.shape[0], targets.shape[-1] if targets.dim() > 1 else targets.shape[0]
    numbers: Any = [
        [most] * one.numel() if on_stand_in(one) else one.tolist() if isinstance(one, torch.Tensor) else one
        for one, most in zip((inputs, outputs), longest, strict=True)
    ]
    return torch.ctc_loss(probabilities, targets, *numbers, *args, **kwargs)


def _type(t: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
    """torch.cuda.FloatTensor and its like name a device, too."""
    if dtype is None:
        name = torch.Tensor.type(t)
        return f"torch.cuda.{name.rpartition('.')[2]}" if t.device.type == STAND_IN else name
    if (of_cuda := names_cuda(dtype)) is None:
        return torch.Tensor.type(t, dtype, *args, **kwargs)
    return t.to(mapped("cuda") if of_cuda else "cpu", on_host(dtype).dtype)


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
