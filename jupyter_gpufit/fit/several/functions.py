"""The functions of torch that a forward calls: their names, the tensors in what they are given, and what they make."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

VALUES = frozenset(  # what makes numbers of tensors, whole ones
    "item tolist numpy __bool__ __int__ __float__ __index__ __complex__ __repr__ __format__ __contains__ __array__"
    " equal allclose is_nonzero __dlpack__ data_ptr".split()
)

VIEWS = ("view", "reshape", "flatten", "unflatten")
UNMET = ("grad", "backward")  # they begin at what they are given
SIZES = ("size", "numel", "nelement")
HOOKS = ("register_hook", "register_post_accumulate_grad_hook", "retain_grad")  # what looks at a gradient
_BY_VALUE = ("masked_select", "nonzero", "argwhere")


def name_of(func: Callable[..., Any]) -> str:
    """An attribute's name with a dot."""
    name: str = getattr(func, "__name__", "")
    if name in ("__get__", "__set__", "__delete__"):
        return f".{getattr(getattr(func, '__self__', None), '__name__', '')}"
    return name


def tensors_in(given: Any) -> Iterator[torch.Tensor]:
    """Of tuples, lists and dicts."""
    if isinstance(given, torch.Tensor):
        yield given
    elif isinstance(given, (tuple, list)):
        for one in given:
            yield from tensors_in(one)
    elif isinstance(given, dict):
        for one in given.values():
            yield from tensors_in(one)


def with_tensors(change: Callable[[torch.Tensor], torch.Tensor], given: Any) -> Any:
    """The same with other tensors; flat tuples, as most are, without a tree's cost."""
    if type(given) is tuple and not any(isinstance(one, (tuple, list, dict)) for one in given):
        return tuple(change(one) if isinstance(one, torch.Tensor) else one for one in given)
    return tree_map_only(torch.Tensor, change, given, is_leaf=_is_size)


def flattened(given: Any) -> tuple[list[Any], Any]:
    """Leaves, and how to put them together again; a size is one."""
    return tree_flatten(given, is_leaf=_is_size)


def _is_size(given: Any) -> bool:
    """It stays one: `t.new()` takes a size for a shape, and a tuple for numbers."""
    return isinstance(given, torch.Size)


def is_in_place(name: str) -> bool:
    """Whether the first argument is what it makes."""
    if name.startswith("__"):
        return name in ("__setitem__",) or (
            name.startswith("__i") and name not in ("__index__", "__invert__", "__int__")
        )
    return name.endswith("_")


def made_by(name: str, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> list[torch.Tensor]:
    """The tensors that a call returned or changed."""
    if is_in_place(name):
        return list(tensors_in(args[:1]))
    found = list(tensors_in(out))
    return found or list(tensors_in(kwargs.get("out")))


def is_setting(func: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Of torch itself, as whether gradients are wanted."""
    return name_of(func).lstrip("_").startswith("set_") and not any(isinstance(one, torch.Tensor) for one in args)


def is_by_value(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether how many rows it makes follows their values."""
    if name == "__getitem__":
        return any(t.dtype in (torch.bool, torch.uint8) for t in tensors_in(args[1:]))
    if name == "repeat_interleave":
        return len([*tensors_in((args, kwargs))]) > 1
    return name in _BY_VALUE or (name == "where" and len(args) + len(kwargs) == 1)


def is_alike(name: str, args: Sequence[Any], rows: bool) -> bool:
    """Whether of rows it takes the looks alone; `rows`: whether its first argument is some."""
    return name.startswith("new_") or (name in ("to", "type_as") and not rows)
