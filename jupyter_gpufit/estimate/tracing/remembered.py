"""What operations on the stand-in come to, remembered: a training makes the same ones in each step.

torch's fake tensors work each out anew, by some hundred lines of Python that are most of a trial's time, or find it
again by nearly as many. An operation alike in all that shapes follow from makes tensors of the same shapes, so that it
is done once by them, and then from what is noted here. What may follow from anything else is never noted: values, a
storage that two results share, a tensor whose shape is changed in place.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager

Key = tuple[Hashable, ...]
_BY_VALUES = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape, torch.Tag.inplace_view}
_TAKEN = torch.ops.aten.index.Tensor  # by values only where a mask takes
_PLAIN = (int, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
_META = torch.device("meta")


@dataclass(frozen=True, slots=True)
class MadeTensor:
    """A tensor that an operation makes: of memory of its own, or as a view of what it was given first."""

    size: torch.Size
    stride: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    device: torch.device
    is_view: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operation comes to."""

    outs: tuple[MadeTensor | int, ...] | None  # None: it gives nothing; a number: the argument at this place
    sequence: type[Any] | None  # the class of the list that they are in; None: it is one tensor
    cost: Any


class Remembered:
    def __init__(self, fake: FakeTensorMode) -> None:
        self._fake = fake
        self._noted: dict[Key, Outcome] = {}
        self._may: dict[Any, bool] = {}  # whether an operator's results follow from shapes

    def key(self, func: Any, args: Any, kwargs: Any) -> Key | None:
        """All that the shapes of its results follow from; None where it may be more than is seen here."""
        may = self._may.get(func)
        if may is None:
            may = self._may[func] = _by_shapes(func)
        if not may:
            return None
        parts: list[Hashable] = [func, torch.get_default_dtype()]
        each = torch.Tag.pointwise in func.tags or func._opname.startswith("_foreach_")  # no number changes a shape
        with torch._C.DisableTorchFunction():
            if not _add(args, parts, each) or (kwargs and not _add(_flat(kwargs), parts, each)):
                return None
        if func is _TAKEN and any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1]):
            return None
        return tuple(parts)

    def find(self, key: Key | None) -> Outcome | None:
        return None if key is None else self._noted.get(key)

    def note(self, key: Key | None, func: Any, args: Any, kwargs: Any, out: Any, cost: Any) -> None:
        """That it came to this."""
        if key is None or self.key(func, args, kwargs) != key:  # it has changed the shape of what it was given
            return
        found: Sequence[Any] = (out,) if isinstance(out, torch.Tensor) else () if out is None else out
        if type(found) not in (tuple, list):
            return
        with torch._C.DisableTorchFunction():
            given = _storages(args) | _storages(kwargs.values())
            outs = [_made(func, args, given, one) for one in found]
            own = [one.untyped_storage()._cdata for one, how in zip(found, outs, strict=True) if _is_own(how)]
        if None not in outs and len(set(own)) == len(own):
            self._noted[key] = Outcome(None if out is None else tuple(outs), type(out) if found is out else None, cost)  # type: ignore[arg-type]

    def again(self, noted: Outcome, args: Any) -> Any:
        if noted.outs is None:
            return None
        with torch._C.DisableTorchFunction(), in_kernel_invocation_manager(self._fake):
            outs = [args[one] if type(one) is int else self._make(one, args) for one in noted.outs]  # type: ignore[arg-type]
        return outs[0] if noted.sequence is None else noted.sequence(outs)

    def _make(self, made: MadeTensor, args: Any) -> FakeTensor:
        if made.is_view:
            there = torch.empty(0, dtype=made.dtype, device=_META)
            there.set_(args[0].untyped_storage(), made.offset, made.size, made.stride)
        else:
            there = torch.empty_strided(made.size, made.stride, dtype=made.dtype, device=_META)
        return FakeTensor(self._fake, there, made.device)


def _by_shapes(func: Any) -> bool:
    return func.namespace == "aten" and (func is _TAKEN or not _BY_VALUES.intersection(func.tags))


def _flat(kwargs: Any) -> Iterable[Any]:
    for name, value in kwargs.items():
        yield name
        yield value


def _add(values: Iterable[Any], parts: list[Hashable], each: bool) -> bool:
    """To a key; whether all of it is of a kind that has one."""
    for value in values:
        cls = type(value)
        if cls is FakeTensor:
            if value.constant is not None or value.layout is not torch.strided or value.dtype.is_complex:
                return False
            if value.is_neg():
                return False
            parts.append((value.size(), value.stride(), value.storage_offset(), value.dtype, value.fake_device))
        elif cls is float:
            parts.append(float if each else (float, value))
        elif cls in _PLAIN:
            parts.append((cls, value))
        elif cls is list or cls is tuple:
            parts.append((cls, len(value)))
            if not _add(value, parts, each):
                return False
        else:
            return False
    return True


def _storages(values: Iterable[Any]) -> set[int]:
    found: set[int] = set()
    for value in values:
        if isinstance(value, torch.Tensor):
            found.add(value.untyped_storage()._cdata)
        elif isinstance(value, (list, tuple)):
            found |= _storages(value)
    return found


def _is_own(how: MadeTensor | int | None) -> bool:
    return isinstance(how, MadeTensor) and not how.is_view


def _made(func: Any, args: Any, given: set[int], out: Any) -> MadeTensor | int | None:
    """None: in a way that cannot be done again without the operation."""
    for place, value in enumerate(args):
        if value is out:
            return place
    if type(out) is not FakeTensor or out.constant is not None or out.layout is not torch.strided:
        return None
    if out.dtype.is_complex or not all(type(number) is int for number in (*out.size(), *out.stride())):
        return None
    storage = out.untyped_storage()
    first = args[0] if args and type(args[0]) is FakeTensor else None
    is_view = first is not None and first.untyped_storage()._cdata == storage._cdata
    how = MadeTensor(out.size(), out.stride(), int(out.storage_offset()), out.dtype, out.fake_device, is_view)
    if is_view or func.is_view:
        return how if is_view else None
    alike = torch.empty_strided(how.size, how.stride, dtype=how.dtype, device=_META)
    whole = storage.nbytes() == alike.untyped_storage().nbytes()
    return how if whole and how.offset == 0 and storage._cdata not in given else None
