"""What a forward makes, leaf by leaf: tensors and numbers, also in objects that are no tree to torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten

_DEEP = 6  # objects in objects
_NUMBERS = (bool, int, float, complex)
_NO_NUMBERS = (str, bytes, type(None), type, torch.dtype, torch.device, torch.layout, nn.Module)
OF_TORCH = frozenset(vars(nn.Module()))  # attributes in which a module keeps its own things


class Unseen(Exception):
    """An object into which nobody can look."""


def leaves_of(made: Any) -> list[tuple[str, Any]]:
    """Each with the way to it; a word counts as none."""
    try:
        return [*_leaves("", made, _DEEP, [])]
    except Unseen:
        raise
    except Exception:  # what an object of somebody's does when it is looked at
        raise Unseen(type(made).__name__) from None


def _leaves(way: str, one: Any, deep: int, met: list[Any]) -> Iterator[tuple[str, Any]]:
    if isinstance(one, (torch.Tensor, *_NUMBERS)):
        yield way, one
        return
    if isinstance(one, _NO_NUMBERS) or type(one) is object or any(one is other for other in met):
        return
    if not deep:
        raise Unseen(type(one).__name__)
    met.append(one)
    for name, inside in _inside(one):
        yield from _leaves(way + name, inside, deep - 1, met)


def _inside(one: Any) -> list[tuple[str, Any]]:
    if isinstance(one, dict):
        return [(f"[{name!r}]", value) for name, value in one.items()]
    if isinstance(one, (tuple, list)):
        return [(f"[{at}]", value) for at, value in enumerate(one)]
    if isinstance(one, (set, frozenset)):
        return [("{}", value) for value in sorted(one, key=repr)]
    if hasattr(one, "__array__") and getattr(getattr(one, "dtype", None), "kind", "O") in "biufc":
        return [("", torch.as_tensor(one.__array__().copy()))]
    children, _ = tree_flatten(one, is_leaf=lambda node: node is not one)
    if not (len(children) == 1 and children[0] is one):
        return [(f"[{at}]", value) for at, value in enumerate(children)]
    found = [(f".{name}", value) for name, value in _attributes(one).items()]
    if not found and (callable(one) or not hasattr(one, "__dict__")):
        raise Unseen(type(one).__name__)
    return found


def _attributes(one: Any) -> dict[str, Any]:
    names = [name for kind in type(one).__mro__ for name in _names(vars(kind).get("__slots__", ()))]
    if dataclasses.is_dataclass(one):
        names += [field.name for field in dataclasses.fields(one)]
    found = {name: getattr(one, name) for name in names if name[:2] != "__" and hasattr(one, name)}
    return found | getattr(one, "__dict__", {})


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def left_in(model: nn.Module) -> list[tuple[str, torch.Tensor | float]]:
    """Tensors in attributes of its modules, also one level into a list, a dict or a tuple, and fractions."""
    found: list[tuple[str, torch.Tensor | float]] = []
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name not in OF_TORCH:
                way = f"{path}.{name}" if path else name
                inside = _inside(value) if isinstance(value, (list, dict, tuple)) else [("", value)]
                found += [(way + at, one) for at, one in inside if isinstance(one, (torch.Tensor, float))]
    return [(way, one) for way, one in found if not isinstance(one, nn.Parameter)]
