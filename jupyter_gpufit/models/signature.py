"""What a model is called with and what it answers: names, types and shapes; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import BadCall
from ..system.foreign import known

Dim = int | str  # a number, or the name of what may be any; "": without a name


@dataclass(frozen=True)
class Slot:
    """One tensor that goes in or comes out."""

    name: str
    dtype: str  # numpy's name
    shape: tuple[Dim, ...] | None  # None: not even how many dimensions is known

    @property
    def words(self) -> str:
        """ "x: float32 [batch, 3, 224, 224]" """
        return f"{self.name}: {self.dtype} {shape_words(self.shape)}"

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Slot:
        found = known(cls, record)
        return cls(**{**found, "shape": None if found["shape"] is None else tuple(found["shape"])})


@dataclass(frozen=True)
class Signature:
    """All of them, in their order."""

    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Signature:
        return cls(
            tuple(Slot.from_record(one) for one in record["inputs"]),
            tuple(Slot.from_record(one) for one in record["outputs"]),
        )

    @property
    def may_batch(self) -> bool:
        """Whether every input begins with a dimension of any size, the same one as far as it is named."""
        first = [slot.shape[0] if slot.shape else 0 for slot in self.inputs]
        return bool(first) and all(isinstance(dim, str) for dim in first) and len(set(first)) == 1

    @property
    def words(self) -> str:
        """ "x: float32 [batch, 4] -> y: float32 [batch, 2]" """
        ins = ", ".join(slot.words for slot in self.inputs)
        return f"{ins} -> {', '.join(slot.words for slot in self.outputs)}"


def shape_words(shape: Sequence[Dim] | None) -> str:
    return "of any shape" if shape is None else f"[{', '.join(str(dim) or '?' for dim in shape)}]"


def named(signature: Signature, given: Sequence[object], by_name: Mapping[str, object]) -> dict[str, object]:
    """The values by the names of the inputs; raise BadCall where there are too few, too many, or others."""
    names = [slot.name for slot in signature.inputs]
    if len(given) > len(names):
        raise BadCall(f"{len(given)} inputs were given, and the model takes {_inputs(signature)}.")
    values = dict(zip(names, given, strict=False))
    for name, value in by_name.items():
        if name not in names:
            raise BadCall(f"The model has no input {name!r}. It takes {_inputs(signature)}.")
        if name in values:
            raise BadCall(f"The input {name!r} was given twice.")
        values[name] = value
    if missing := [name for name in names if name not in values]:
        raise BadCall(f"The input {missing[0]!r} is missing. The model takes {_inputs(signature)}.")
    return values


def check_call(signature: Signature, found: Mapping[str, tuple[str, Sequence[int]]]) -> None:
    """Raise BadCall unless each input, by its name, has the type and shape that the model takes."""
    sizes: dict[str, tuple[int, str]] = {}
    for slot in signature.inputs:
        dtype, shape = found[slot.name]
        if dtype != slot.dtype:
            raise BadCall(
                f"{slot.name} is {dtype}, and the model takes {slot.dtype}: {slot.name}.astype({slot.dtype!r}) in"
                " numpy."
            )
        if slot.shape is None:
            continue
        wrong = len(shape) != len(slot.shape) or any(
            isinstance(dim, int) and dim != size for dim, size in zip(slot.shape, shape, strict=True)
        )
        if wrong:
            raise BadCall(
                f"{slot.name} has the shape {shape_words(list(shape))}, and the model takes {shape_words(slot.shape)}."
            )
        for dim, size in zip(slot.shape, shape, strict=True):
            if isinstance(dim, str) and dim and sizes.setdefault(dim, (size, slot.name))[0] != size:
                other = sizes[dim]
                raise BadCall(f"{dim} is {other[0]} in {other[1]}, and {size} in {slot.name}: they must be the same.")


def _inputs(signature: Signature) -> str:
    return ", ".join(slot.words for slot in signature.inputs) or "no input"
