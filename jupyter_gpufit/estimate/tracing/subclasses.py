"""Classes of tensors that are made by `as_subclass` (fastai's, MONAI's, torchvision's): on the stand-in they are plain.

Such a class adds names and `__torch_function__`, and computes what torch computes. A fake tensor has a class already,
and fake kernels refuse any other.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

_KNOWN = (torch.Tensor, torch.nn.Parameter, FakeTensor)
_DISPATCH = torch.Tensor.__torch_dispatch__


def begin() -> None:
    FakeTensor.as_subclass = lambda self, cls: self  # type: ignore[assignment, method-assign, return-value]


def is_one(value: object) -> bool:
    cls = type(value)
    return cls not in _KNOWN and issubclass(cls, torch.Tensor) and cls.__torch_dispatch__ == _DISPATCH


def made_plain(values: Any) -> Any:
    """The same memory without the class."""
    with no_dispatch(), torch._C.DisableTorchFunctionSubclass():
        return tree_map(lambda value: value.as_subclass(torch.Tensor) if is_one(value) else value, values)
