"""The size of a batch, as a forward with this rank's rows sees it: shapes are made by what is here, and whatever is
computed with it (`loss / x.shape[0]`) by what there is in all.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from .leaves import OF_TORCH

Whole = Callable[[torch.Tensor], torch.Tensor]
_DEEP = 4  # objects in objects
_PAIRED = "add sub mul floordiv mod"
_COMPARED = "lt le gt ge"
ARITHMETIC = frozenset(
    "add sub rsub mul div true_divide divide multiply subtract pow __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__"
    " __truediv__ __rtruediv__ __rdiv__ __div__ __pow__ __rpow__ add_ sub_ mul_ div_ __iadd__ __isub__ __imul__"
    " __itruediv__ tensor as_tensor".split()
)


class Samples(int):
    """An int of this rank's, with the number of all ranks."""

    whole: int

    def __new__(cls, here: int, whole: int) -> Samples:
        made = super().__new__(cls, here)
        made.whole = whole
        return made

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Samples):
            return self.whole == other.whole
        return self.whole == other or int.__eq__(self, other) is True  # what it is compared with may be either

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__

    def __float__(self) -> float:
        return float(self.whole)

    def __truediv__(self, other: Any) -> Any:
        return self.whole / whole_number(other)

    def __rtruediv__(self, other: Any) -> Any:
        return whole_number(other) / self.whole

    def __pow__(self, other: Any, *mod: Any) -> Any:
        return pow(self.whole, whole_number(other), *mod)

    def __repr__(self) -> str:
        return repr(self.whole)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(self.whole, spec)

    def __reduce__(self) -> Any:
        return int, (self.whole,)


def whole_number(value: Any) -> Any:
    return value.whole if isinstance(value, Samples) else value


def _pair(name: str, *, swapped: bool = False) -> Callable[[Samples, Any], Any]:
    real = getattr(operator, name)

    def made(self: Samples, other: Any) -> Any:
        if not isinstance(other, int):
            if not isinstance(other, (float, complex)):
                return NotImplemented
            return real(other, self.whole) if swapped else real(self.whole, other)
        here, whole = (int(self), self.whole), (int(other), whole_number(other))
        if swapped:
            here, whole = whole, here
        return Samples(real(here[0], whole[0]), real(here[1], whole[1]))

    return made


def _comparison(name: str) -> Callable[[Samples, Any], Any]:
    real = getattr(operator, name)

    def made(self: Samples, other: Any) -> Any:
        return real(self.whole, whole_number(other))

    return made


for _name in _PAIRED.split():
    setattr(Samples, f"__{_name}__", _pair(_name))
    setattr(Samples, f"__r{_name}__", _pair(_name, swapped=True))
for _name in _COMPARED.split():
    setattr(Samples, f"__{_name}__", _comparison(_name))


def with_samples(size: Any, dim: int, all_of_it: int) -> Any:
    """A tensor's shape, whose rows are along this dimension."""
    return torch.Size([Samples(one, all_of_it) if at == dim else one for at, one in enumerate(size)])


def whole_size(value: Any) -> Any:
    """As one device has it."""
    if isinstance(value, torch.Size):
        return torch.Size([whole_number(one) for one in value])
    return whole_number(value)


_LEFT = (Samples, torch.Tensor, list, tuple, dict)


def settle(made: Any, deep: int = _DEEP, whole: Whole = lambda t: t) -> Any:
    """What a forward returns, with the sizes of all in it; objects are changed where they are."""
    if isinstance(made, (Samples, torch.Size)):
        return whole_size(made)
    if isinstance(made, torch.Tensor):
        return whole(made)
    if not deep or isinstance(made, (nn.Module, type, str, bytes, int, float)):
        return made
    if type(made) in (list, tuple):
        found = [settle(one, deep - 1, whole) for one in made]
        if all(a is b for a, b in zip(found, made, strict=True)):
            return made
        if isinstance(made, tuple):
            return tuple(found)
        made[:] = found
        return made
    values = made if type(made) is dict else getattr(made, "__dict__", None)
    if isinstance(values, dict):
        for name, value in list(values.items()):
            settled = settle(value, deep - 1, whole)
            if settled is not value:
                values[name] = settled
    return made


def settle_in(model: nn.Module, whole: Whole) -> None:
    """What it has left in attributes of its modules, where a checkpoint finds it, and its next call."""
    for module in model.modules():
        values = vars(module)
        for name, value in values.items():
            if isinstance(value, _LEFT) and name not in OF_TORCH:
                values[name] = settle(value, _DEEP, whole)
