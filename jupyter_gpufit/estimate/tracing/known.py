"""Values that are known although they are on the stand-in: what came from the host, whole numbers that were made there
(zeros, a range), and what is computed of those alone.

How many graphs a batch has, how long its longest sequence is, which rows a mask takes: shapes follow from these, and a
guess would make the cell fail where it does not; so it is with labels, of which a metric wants more than one. Numbers
with a fraction are left out: there are many, and no shape follows from them. Where all of a storage is known, a picture
of it hangs on it: views are views of that, and what is known to be written there is written there, too.

Of some others it is known how many different values they can have: the classes of an `argmax`. That is kept through
whatever gives each value one new one. Of whole numbers that nobody knows it is known how far apart they are: a slice
from `start` to `end = start + 8` has 8 rows, whatever is guessed for its start.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

from ...cuda.stand_in.device import on_stand_in

MOST = 1 << 20  # elements that are worth computing
_NAME = "_gpufit_known"
_KINDS = "_gpufit_kinds"  # how many different values there are at the most
_HOST = torch.device("cpu")
_CLASSES = {torch.ops.aten.argmax.default, torch.ops.aten.argmin.default}
_TAKEN = torch.ops.aten.index.Tensor
_FURTHER = "_gpufit_further"  # by how much more than what is guessed
_SHIFTS = {
    torch.ops.aten.add.Tensor: 1,
    torch.ops.aten.add.Scalar: 1,
    torch.ops.aten.sub.Tensor: -1,
    torch.ops.aten.sub.Scalar: -1,
}
_AS_THEY_ARE = {torch.ops.aten._to_copy.default, torch.ops.aten.clone.default, _TAKEN}


_LISTS: Any = (list, tuple, type({}.values()))
_PICTURE = "_gpufit_picture"  # of a storage: one in the host's memory
# Made alike of whatever there is; and what lies in memory, for nobody reads that before it is written.
_ALIKE = {"zeros_like": 0, "new_zeros": 0, "ones_like": 1, "new_ones": 1} | dict.fromkeys(
    ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"), 0
)
_ELSEWHERE = ("set_", "resize_")  # what these write is another storage


class KnownValues:
    """By the storage, or by the tensor; forgotten once somebody writes there what nobody knows."""

    def __init__(self) -> None:
        self._written: set[StorageWeakRef] = set()  # which also keeps another's from their addresses

    def of(self, t: Any) -> torch.Tensor | None:
        """A tensor in the host's memory."""
        if not isinstance(t, FakeTensor):
            return None
        if (picture := getattr(t.untyped_storage(), _PICTURE, None)) is not None:
            with no_dispatch():
                there = torch.empty(0, dtype=t.dtype, device=_HOST)
                return there.set_(picture, t.storage_offset(), t.size(), t.stride())
        found: torch.Tensor | None = None if _storage(t) in self._written else t.__dict__.get(_NAME)
        return found

    def arrived(self, t: Any, out: Any) -> None:
        """A tensor of the host's was copied to the stand-in."""
        if isinstance(t, FakeTensor) or t.is_complex() or t.numel() > MOST:
            return
        with no_dispatch():
            if t.is_floating_point() and not _are_whole(t):
                return
            self.keep(out, t.to(out.dtype, copy=True))

    def kinds_of(self, t: torch.Tensor) -> int:
        """How many different values it can have."""
        most: int = 2 if t.dtype == torch.bool else t.numel()
        if _storage(t) not in self._written:
            most = t.__dict__.get(_KINDS, most)
        return min(t.numel(), most)

    def further_of(self, t: torch.Tensor) -> int:
        """By how much more it is than the guess for what it was computed from."""
        found: int = 0 if _storage(t) in self._written else t.__dict__.get(_FURTHER, 0)
        return found

    def follow(self, func: Any, args: Any, kwargs: Any, out: Any) -> None:
        """Compute what is known of a result."""
        if func._schema.is_mutable:
            written = [t for t in _written_by(func, args, kwargs) if on_stand_in(t)]
            if not self._write(func, args, kwargs, written):
                for t in written:
                    self._written.add(_storage(t))
                    setattr(t.untyped_storage(), _PICTURE, None)
            return
        tensors = _tensors_in((args, kwargs.values()))
        if isinstance(out, FakeTensor) and (kinds := self._kinds_after(func, args, tensors)) < out.numel():
            out.__dict__[_KINDS] = kinds
        if isinstance(out, FakeTensor) and (further := self._further_after(func, args, kwargs, tensors)):
            out.__dict__[_FURTHER] = further
        outs = _all(out)
        if func.is_view and all(_has_picture(one) for one in outs if isinstance(one, FakeTensor)):
            return
        if not outs or torch.Tag.nondeterministic_seeded in func.tags:
            return
        if not all(on_stand_in(one) and one.numel() <= MOST for one in outs):
            return
        if func._opname in _ALIKE:
            self._fill(_ALIKE[func._opname], outs[0])
        elif all(map(self._is_known, tensors)) if tensors else _is_whole(outs[0]):
            self._compute(func, args, kwargs, outs)

    def _kinds_after(self, func: Any, args: Any, tensors: list[torch.Tensor]) -> int | float:
        first = tensors[0] if tensors else None
        if not isinstance(first, FakeTensor) or (tensors[1:] and func is not _TAKEN):
            return inf
        if func in _CLASSES:
            along = args[1] if len(args) > 1 else None
            return inf if along is None else first.shape[along]
        each = torch.Tag.pointwise in func.tags and torch.Tag.nondeterministic_seeded not in func.tags
        return self.kinds_of(first) if each or func.is_view or func in _AS_THEY_ARE else inf

    def _further_after(self, func: Any, args: Any, kwargs: Any, tensors: list[torch.Tensor]) -> int:
        first = tensors[0] if tensors else None
        if not isinstance(first, FakeTensor) or len(tensors) != 1 or first.is_floating_point():
            return 0
        if func in _SHIFTS and not kwargs and args[0] is first and type(args[1]) is int:
            return self.further_of(first) + _SHIFTS[func] * args[1]
        return self.further_of(first) if func.is_view or func in _AS_THEY_ARE else 0

    def _is_known(self, t: torch.Tensor) -> bool:
        if isinstance(t, FakeTensor):
            return self.of(t) is not None
        return t.numel() <= MOST and not t.is_floating_point() and not t.is_complex()

    def _compute(self, func: Any, args: Any, kwargs: Any, outs: Sequence[torch.Tensor]) -> None:
        if (found := self._here(func, args, kwargs)) is None:
            return
        for out, value in zip(outs, _all(found), strict=False):  # a sort gives two
            if value.shape == out.shape and value.dtype == out.dtype:
                self.keep(out, value)

    def _fill(self, value: int, out: torch.Tensor) -> None:
        if _is_whole(out):
            with no_dispatch():
                self.keep(out, torch.full(out.shape, value, dtype=out.dtype, device=_HOST))

    def _here(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The same of the known values; None: the operator is not there on the CPU."""

        def here(value: Any) -> Any:
            if isinstance(value, torch.device):
                return _HOST
            return self.of(value) if isinstance(value, FakeTensor) else value

        try:
            with no_dispatch():
                return func(*tree_map(here, args), **tree_map(here, kwargs))
        except Exception:
            return None

    def _write(self, func: Any, args: Any, kwargs: Any, written: Sequence[torch.Tensor]) -> bool:
        """Into pictures, where all has one; whether that was done."""
        if func._opname in _ELSEWHERE or torch.Tag.nondeterministic_seeded in func.tags:
            return False
        if not written or not all(_has_picture(t) for t in written):
            return False
        return (
            all(map(self._is_known, _tensors_in((args, kwargs.values()))))
            and self._here(func, args, kwargs) is not None
        )

    def keep(self, out: Any, value: torch.Tensor) -> None:
        """Of a result: the whole of its storage, or as much as there is of it."""
        storage = out.untyped_storage()
        if out.is_contiguous() and storage.nbytes() == out.numel() * out.element_size():
            with no_dispatch():
                setattr(storage, _PICTURE, value.clone(memory_format=torch.contiguous_format).untyped_storage())
        else:
            out.__dict__[_NAME] = value


def _written_by(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """And not what the operator only reads, as the places of a scatter."""
    named = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)} | kwargs
    written = [argument for argument in func._schema.arguments if argument.is_out or _is_written(argument)]
    return _tensors_in([named.get(argument.name) for argument in written])


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def leaves(values: Any) -> Iterator[Any]:
    """What an operator is given or gives, out of all lists: torch's own way asks a registry of classes for each."""
    for value in values if isinstance(values, _LISTS) else (values,):
        if isinstance(value, _LISTS):
            yield from leaves(value)
        else:
            yield value


def _tensors_in(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in leaves(values) if isinstance(leaf, torch.Tensor)]


def _all(out: Any) -> list[torch.Tensor]:
    """The tensors that an operator gives; none where it gives anything else, too."""
    found = list(out) if isinstance(out, list | tuple) else [out]
    return found if all(isinstance(one, torch.Tensor) for one in found) else []


def _has_picture(t: torch.Tensor) -> bool:
    return getattr(t.untyped_storage(), _PICTURE, None) is not None


def _is_whole(out: torch.Tensor) -> bool:
    """Whether it has whole numbers; where these are made of nothing, they are what was asked for: zeros, a range."""
    return not out.is_floating_point() and not out.is_complex()


def _storage(t: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(t.untyped_storage())


def _are_whole(t: torch.Tensor) -> bool:
    """Most that are not show it at once."""
    few = t.flatten()[:16]
    return bool((few == few.round()).all()) and bool((t == t.round()).all())
