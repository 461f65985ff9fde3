"""Which of the tensors that a model is given hold samples, and along which dimension; and what it returns, compared."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from numbers import Number
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from .leaves import Unseen, leaves_of

_NEAR = {torch.float64: 1e-8, torch.float32: 1e-4}  # a relative distance that rounding does not reach; of others:
_NEAR_IN_HALF = 3e-2
Leaves = Sequence[tuple[str, Any]]  # each with the way to it
_ODD = 0.01  # of whole numbers and truth values, which follow from roundings


@dataclass(frozen=True)
class BatchGiven:
    """A call's arguments: leaves, the tensors among them, and how to put them together."""

    leaves: list[Any]
    spec: Any
    names: list[str]

    @property
    def tensors(self) -> list[tuple[int, torch.Tensor]]:
        return [(at, leaf) for at, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    @property
    def told(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Of the leaves that are no tensors: words, truth values and kinds, which are few; and numbers."""
        others = [leaf for leaf in self.leaves if not isinstance(leaf, torch.Tensor)]
        seen = [one for leaf in others for one in ([("", leaf)] if _is_word(leaf) else _inside(leaf))]
        words = [(way, type(one), repr(one) if _is_word(one) else "") for way, one in seen]
        numbers = [repr(one) for _, one in seen if isinstance(one, Number) and not isinstance(one, bool)]
        return (*map(type, others), *words), tuple(numbers)

    def put(self, instead: dict[int, torch.Tensor]) -> tuple[Any, Any]:
        """The arguments, with others in these places."""
        return tree_unflatten([instead.get(at, leaf) for at, leaf in enumerate(self.leaves)], self.spec)  # type: ignore[no-any-return]


def _is_word(leaf: Any) -> bool:
    return leaf is None or isinstance(leaf, (bool, str, bytes, Enum, torch.dtype, torch.device))


def _inside(leaf: Any) -> Leaves:
    """The numbers of an object; of one that does not show any, its class must do."""
    try:
        return [] if hasattr(leaf, "__array__") else leaves_of(leaf)
    except Unseen:
        return []


def given_to(module: nn.Module, args: Any, kwargs: Any) -> BatchGiven:
    leaves, spec = tree_flatten((args, kwargs))
    return BatchGiven(leaves, spec, [*_names(module, args, kwargs)])


def _names(module: nn.Module, args: Any, kwargs: Any) -> Iterator[str]:
    """Of the arguments that hold tensors, as the model's forward calls them."""
    try:
        known = [*inspect.signature(module.forward).parameters]
    except (TypeError, ValueError):
        known = []
    for at, arg in enumerate(args):
        yield from [known[at] if at < len(known) else f"argument {at + 1}"] * _count(arg)
    for name, arg in kwargs.items():
        yield from [name] * _count(arg)


def _count(given: Any) -> int:
    return sum(isinstance(leaf, torch.Tensor) for leaf in tree_flatten(given)[0])


def guesses(module: nn.Module, given: BatchGiven) -> list[dict[int, int]]:
    """Along which dimension each tensor holds samples, the likeliest first; whether it is so, a run shows."""
    with_dims = [(at, t) for at, t in given.tensors if t.dim()]
    if not with_dims:
        return []
    first = with_dims[0]
    by_first = {at: 0 for at, t in with_dims if t.shape[0] == first[1].shape[0]}
    found = [by_first, {first[0]: 0}]
    if first[1].dim() > 1:
        size = first[1].shape[1]
        by_second = {at: _where(t, size) for at, t in with_dims if size in t.shape[:2]}
        of_words = first[1].dim() > 2 or not first[1].is_floating_point()
        found.insert(0 if _time_first(module) and of_words else 1, by_second)
    return [guess for at, guess in enumerate(found) if guess not in found[:at]]


def _where(t: torch.Tensor, size: int) -> int:
    return 1 if t.dim() > 1 and t.shape[1] == size else 0


def _time_first(module: nn.Module) -> bool:
    return any(getattr(one, "batch_first", True) is False for one in module.modules())


def batch_of(given: BatchGiven, guess: dict[int, int]) -> int:
    at, dim = next(iter(guess.items()))
    size: int = given.leaves[at].shape[dim]
    return size


def fits(given: BatchGiven, guess: dict[int, int]) -> bool:
    """Whether all of these have the same number of samples there."""
    batch = batch_of(given, guess)
    return all(given.leaves[at].dim() > dim and given.leaves[at].shape[dim] == batch for at, dim in guess.items())


def shapes_beside(given: BatchGiven, guess: dict[int, int]) -> tuple[Any, ...]:
    """All shapes, but for how many samples there are."""
    return tuple((at, *(size for dim, size in enumerate(t.shape) if guess.get(at) != dim)) for at, t in given.tensors)


def first_samples(given: BatchGiven, guess: dict[int, int], many: int) -> BatchGiven:
    """A smaller batch."""
    leaves = list(given.leaves)
    for at, dim in guess.items():
        leaves[at] = leaves[at].narrow(dim, 0, many)
    return replace(given, leaves=leaves)


def difference(made: Leaves, whole: Leaves, what: str) -> str:
    """How what was made of parts differs from what was made of the whole batch; empty: by rounding, if at all."""
    if [way for way, _ in made] != [way for way, _ in whole]:
        return f"there is something else in {what}"
    for (way, a), (_, b) in zip(made, whole, strict=True):
        which = f"{what}, {way.lstrip('.')}," if way else what
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            if not _same_number(a, b):
                return f"{which} is {a} where the whole batch makes {b}"
            continue
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{which} has the shape {tuple(a.shape)} where the whole batch makes {tuple(b.shape)}"
        far = _distance(a.detach(), b.detach())
        if far > _near(a):
            return f"{which} differs by {far:.1%} from that of the whole batch"
    return ""


def _same_number(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if isinstance(a, (bool, complex)) or a != a:
        return bool(a == b or (a != a and b != b))
    near = _ODD if isinstance(a, int) else _NEAR_IN_HALF if _halved() else _NEAR[torch.float32]
    return a == b or bool(abs(a - b) <= near * abs(b))


def _near(t: torch.Tensor) -> float:
    if not t.is_floating_point() and not t.is_complex():
        return _ODD
    return _NEAR_IN_HALF if _halved(t.device.type) else _NEAR.get(t.dtype, _NEAR_IN_HALF)


def _halved(kind: str = "cuda") -> bool:
    return any(torch.is_autocast_enabled(one) for one in {kind, "cpu"})


def _distance(a: torch.Tensor, b: torch.Tensor) -> float:
    if a.is_sparse:
        a, b = a.to_dense(), b.to_dense()
    if not a.numel():
        return 0.0
    if not a.is_floating_point() and not a.is_complex():
        return float((a != b).double().mean())
    odd = ~(a.isfinite() & b.isfinite())
    if bool((odd & ~((a == b) | (a.isnan() & b.isnan()))).any()):
        return float("inf")
    a, b = a.where(~odd, 0), b.where(~odd, 0)
    dtype = torch.promote_types(a.dtype, torch.float32)
    far, size = torch.linalg.vector_norm(a - b, dtype=dtype), torch.linalg.vector_norm(b, dtype=dtype)
    return float(far / size) if float(size) > 0 else float(far)
