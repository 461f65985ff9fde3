"""Tensors of a class of their own (fastai's, torchvision's): fake ones, too, are of it, for much is chosen by it.

A class that only adds attributes or `__torch_function__` is meant; fake tensors refuse both. One with
`__torch_dispatch__` goes its own way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch

_real = torch.Tensor.as_subclass
_ATTRIBUTES: Any = next(vars(cls)["__dict__"] for cls in FakeTensor.__mro__ if "__dict__" in vars(cls))


def begin() -> None:
    setattr(torch.Tensor, "as_subclass", _as_subclass)  # noqa: B010 - its type is torch's own


def _as_subclass(self: torch.Tensor, cls: type[torch.Tensor]) -> Any:
    if not isinstance(self, FakeTensor):
        return self if issubclass(cls, FakeTensor) else _real(self, cls)  # within an operator it is a meta tensor
    with torch._C.DisableTorchFunctionSubclass():
        out = torch.ops.aten.alias.default(self)
    if cls is not torch.Tensor:
        out.__class__ = cls if issubclass(cls, FakeTensor) else _fake(cls)
    return out


class _Fake(FakeTensor):
    """One whose results are of its class again, as those of any subclass are."""

    @classmethod
    def __torch_function__(cls, *args: Any) -> Any:  # torch itself sets one that wraps nothing
        return vars(torch.Tensor)["__torch_function__"].__func__(cls, *args)


@lru_cache(maxsize=256)
def _fake(cls: type[torch.Tensor]) -> type[torch.Tensor]:
    body = {"__module__": cls.__module__, "__dict__": property(_ATTRIBUTES.__get__, _take_attributes)}
    metaclass: Any = type(cls)
    made: type[torch.Tensor] = metaclass(cls.__name__, (cls, _Fake), body)
    return made


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
