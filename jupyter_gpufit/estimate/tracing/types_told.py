"""What `type(x)` tells of a traced tensor to the cell, the user's own modules and libraries on torch.

On a device it is no FakeTensor, and `type(x) == torch.Tensor`, as much research code asks, holds. Torch sees the truth.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from ...system.packages import file_of, is_installed

_TRUE_FOR = frozenset({*sys.stdlib_module_names, "jupyter_gpufit", "torch", "functorch", "torchgen"})


class _Told:
    """Stands for `type`: as a call, a base, and in isinstance() and annotations."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) is FakeTensor:
            return torch.nn.Parameter if getattr(args[0], "_is_param", False) else torch.Tensor
        return type(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(type, name)

    def __instancecheck__(self, one: object) -> bool:
        return isinstance(one, type)

    def __subclasscheck__(self, one: type) -> bool:
        return issubclass(one, type)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (type,)

    def __getitem__(self, of: Any) -> Any:
        return type[of]

    def __or__(self, other: Any) -> Any:
        return type | other

    __ror__ = __or__

    def __eq__(self, other: object) -> bool:
        return other is self or other is type

    def __hash__(self) -> int:
        return hash(type)


def begin(namespace: dict[str, object]) -> None:
    """For functions of the notebook, of modules that nobody installed, and of those that name torch or its tensors."""
    told = _Told()
    namespace.setdefault("type", told)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _TRUE_FOR and issubclass(type(module), ModuleType) and name != "__main__":
            file = file_of(module)
            if file.endswith(".py") and (_is_on_torch(module) or not is_installed(file)):
                vars(module).setdefault("type", told)


def _is_on_torch(module: ModuleType) -> bool:
    return any(value is torch or value is torch.Tensor for value in list(vars(module).values()))
