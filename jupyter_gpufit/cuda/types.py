"""torch.cuda.FloatTensor and its like, from times before `device=`, where `cuda` means something else.

Each has the name of torch's own, so that one which an earlier cell kept is the device's own wherever it arrives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

_DTYPES = ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Bool", "Char")


class TypeOnCuda(type):
    """Called, it makes a tensor on cuda; asked, it tells what is one."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            return args[0].detach().to("cuda", vars(cls)["dtype"])
        made: torch.Tensor = torch.as_tensor(vars(cls)["host"](*args)).to("cuda")
        return made

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is vars(cls)["dtype"]


class SparseTypeOnCuda(TypeOnCuda):
    """The same of torch.cuda.sparse's: of indices, values and a size, or of a size alone."""

    def __call__(cls, *args: Any, **kwargs: Any) -> torch.Tensor:
        if not any(isinstance(one, torch.Tensor) for one in args):
            size = args[0] if args and not isinstance(args[0], int) else args
            return torch.zeros(size, dtype=vars(cls)["dtype"], device="cuda", layout=torch.sparse_coo)
        places, values, *size = args
        return torch.sparse_coo_tensor(places, values.to(vars(cls)["dtype"]), *size, device="cuda")

    def __instancecheck__(cls, value: object) -> bool:
        return super().__instancecheck__(value) and isinstance(value, torch.Tensor) and value.is_sparse


def types_on_cuda() -> Iterator[tuple[ModuleType, str, TypeOnCuda]]:
    """Each with the module and the name that it has."""
    for name in (f"{dtype}Tensor" for dtype in _DTYPES):
        host: Any = getattr(torch, name)
        inside = {"__module__": "torch.cuda", "host": host, "dtype": host.dtype, "is_cuda": True, "is_sparse": False}
        yield torch.cuda, name, TypeOnCuda(name, (), inside | {"layout": torch.strided})
        if hasattr(torch.cuda.sparse, name):
            inside |= {"__module__": "torch.cuda.sparse", "is_sparse": True, "layout": torch.sparse_coo}
            yield torch.cuda.sparse, name, SparseTypeOnCuda(name, (), inside)


def names_cuda(kind: object) -> bool | None:
    """Whether a type, or its name, is one of cuda's; None where it is neither (a dtype)."""
    name = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    return name.startswith("torch.cuda.") if name.endswith("Tensor") and name.startswith("torch.") else None


def on_host(kind: Any) -> Any:
    """The host's type of the same values."""
    name = kind if isinstance(kind, str) else kind.__name__
    where = torch.sparse if ".sparse." in f"{getattr(kind, '__module__', '')}.{name}" else torch
    return getattr(where, name.rpartition(".")[2])


_construct: Any = torch._C.TensorBase.__new__


def construct_by(function: Any) -> None:
    """Have every `torch.Tensor(...)`, also of a user's class, come to `function` instead of torch's own constructor."""
    global _construct
    _construct = functools.wraps(torch._C.TensorBase.__new__)(function)
    torch.Tensor.__new__ = staticmethod(_construct)  # type: ignore[method-assign]


@functools.wraps(torch._C.TensorBase.__new__)  # of whose signature torch's compiler is sure
def _on_cuda(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """`torch.Tensor(values)`: of the default type, whatever the default device is."""
    made = _construct(cls, *args, **kwargs)
    return made.to("cuda") if cls is torch.Tensor and "device" not in kwargs else made


def is_default() -> bool:
    """Whether the default type is one of cuda's."""
    now: Any = vars(torch.Tensor).get("__new__")
    return (now is not None and now.__func__ is _on_cuda) or torch.Tensor(0).is_cuda


def default_type(real: Callable[[Any], None]) -> Callable[[Any], None]:
    """`torch.set_default_tensor_type`, which sets a device besides a dtype."""

    def set_default_tensor_type(kind: Any) -> None:
        if names_cuda(kind):
            real(on_host(kind))
            torch.set_default_device("cuda")
            torch.Tensor.__new__ = staticmethod(_on_cuda)  # type: ignore[method-assign]
        else:
            real(kind)
            if "__new__" in vars(torch.Tensor):
                del torch.Tensor.__new__
            if _construct is not torch._C.TensorBase.__new__:
                construct_by(_construct)
            if torch.get_default_device().type == "cuda":
                torch.set_default_device("cpu")

    return set_default_tensor_type
