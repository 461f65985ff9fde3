"""Tensors of a class of their own (fastai's, torchvision's): fake ones, too, are of it, for much is chosen by it.

A class that only adds attributes or `__torch_function__` is meant; fake tensors refuse both. One with
`__torch_dispatch__` goes its own way.
"""

from __future__ import annotations

from functools import lru_cache, wraps
from types import FunctionType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode_stack

from ...cuda import types

_counts: TorchDispatchMode | None = None
_real = torch.Tensor.as_subclass
_construct: Any = torch._C.TensorBase.__new__
_data: Any = torch._C.TensorBase.data
_ATTRIBUTES: Any = next(vars(cls)["__dict__"] for cls in FakeTensor.__mro__ if "__dict__" in vars(cls))


def begin(counts: TorchDispatchMode) -> None:
    """`counts`: what is asked of each operation."""
    global _counts
    _counts = counts
    data = property(_data.__get__, _set_data)
    for name, ours in (("as_subclass", _as_subclass), ("data", data)):
        setattr(torch.Tensor, name, ours)
    types.construct_by(_new)


def _as_subclass(self: torch.Tensor, cls: type[torch.Tensor]) -> Any:
    if not isinstance(self, FakeTensor):
        return self if issubclass(cls, FakeTensor) else _real(self, cls)  # within an operator it is a meta tensor
    with torch._C.DisableTorchFunctionSubclass():
        out = torch.ops.aten.alias.default(self)
    if cls is not torch.Tensor:
        out.__class__ = cls if issubclass(cls, FakeTensor) else _fake(cls)
    return out


def _new(cls: Any, *given: Any, **kwargs: Any) -> Any:
    """`Noise(t)`: what `as_subclass` gives."""
    if cls is torch.Tensor or not given or not isinstance(given[0], torch.Tensor) or issubclass(cls, FakeTensor):
        return _construct(cls, *given, **kwargs)
    if isinstance(given[0], FakeTensor):
        return _as_subclass(given[0].detach(), cls)
    return torch.Tensor._make_subclass(cls, plain(given[0]))  # which sets modes aside


def _set_data(self: torch.Tensor, value: torch.Tensor) -> None:
    """`z.data = z.to("cuda")` of one that is not a fake: it becomes one, which is the same object."""
    cls = type(self)
    if not isinstance(value, FakeTensor) or issubclass(cls, FakeTensor) or plain(self) is self:
        _data.__set__(self, value)
        return
    made, own = _as_subclass(value, cls), dict(_ATTRIBUTES.__get__(self))
    with torch._C.DisableTorchFunctionSubclass():
        # Not by torch's own function, which minds that somebody notes what becomes of `made`.
        self.__class__, made.__class__ = type(made), cls
        theirs = dict(_ATTRIBUTES.__get__(made))
        _ATTRIBUTES.__get__(made).clear()
        _ATTRIBUTES.__get__(self).update(theirs | own)
        torch._C._swap_tensor_impl(self, made)


class _Fake(FakeTensor):
    """One whose results are of its class again, as those of any subclass are."""

    @classmethod
    def __torch_function__(cls, *args: Any) -> Any:  # torch itself sets one that wraps nothing
        return vars(torch.Tensor)["__torch_function__"].__func__(cls, *args)


@lru_cache(maxsize=256)
def _fake(cls: type[torch.Tensor]) -> type[torch.Tensor]:
    own = {name for base in cls.__mro__ if not issubclass(torch.Tensor, base) for name in vars(base)}
    methods = {name: _outside(getattr(cls, name), method) for name in own if (method := _torchs_method(name))}
    body = {**methods, "__module__": cls.__module__, "__dict__": property(_ATTRIBUTES.__get__, _take_attributes)}
    metaclass: Any = type(cls)
    made: type[torch.Tensor] = metaclass(cls.__name__, (cls, _Fake), body)
    return made


def _torchs_method(name: str) -> Any:
    method = getattr(torch.Tensor, name, None)
    return method if callable(method) and not name.startswith("__") else None


def _outside(method: Any, torchs: Any) -> Any:
    """Not where torch computes an operation by others of its own: on a device it would see no class there."""
    if not isinstance(method, FunctionType):
        return method

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (torchs if _is_inside() else method)(self, *args, **kwargs)

    return call


def _is_inside() -> bool:
    """Whether an operation is under way: what counts the operations is set aside then."""
    return all(mode is not _counts for mode in _get_current_dispatch_mode_stack())


def _take_attributes(self: FakeTensor, theirs: dict[str, Any]) -> None:
    """fastai gives a result all attributes of what it was computed from; what makes it a fake one is its own."""
    own = _ATTRIBUTES.__get__(self)
    own.update({name: value for name, value in theirs.items() if name not in own and not name.startswith("_")})


def plain(value: Any) -> Any:
    """The tensor itself, of the base class, where it is one of the host's with a class of its own."""
    cls = type(value)
    if cls is torch.Tensor or not issubclass(cls, torch.Tensor) or issubclass(cls, (FakeTensor, torch.nn.Parameter)):
        return value
    if cls.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        return value
    with no_dispatch():
        return _real(value, torch.Tensor)
