"""What is said over the socket of a deployed model, and between its two processes; pure.

Each message is one packet (SOCK_SEQPACKET) of JSON. With a call may come the descriptor of new shared memory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from ..system.foreign import known, parsed_record

PROTOCOL = 1
LARGEST = 128 << 10  # bytes of one packet
MOST_TENSORS = 256  # of one call
MOST_DIMS = 32
ALIGNED = 64  # bytes: where a tensor begins


_ENCODER = json.JSONEncoder(separators=(",", ":"))  # one for all: to make it takes longer than a message


@dataclass(frozen=True)
class Lying:
    """A tensor in shared memory; said as a list, since a call is read three times on its way."""

    dtype: str  # numpy's name
    shape: tuple[int, ...]
    at: int  # byte at which it begins

    @property
    def said(self) -> list[Any]:
        return [self.dtype, self.shape, self.at]

    @classmethod
    def of(cls, said: object) -> Lying:
        """Raise ValueError for what is none."""
        if not isinstance(said, list) or len(said) != 3:
            raise ValueError("it is no place of a tensor")
        dtype, shape, at = said
        if not isinstance(dtype, str) or not isinstance(shape, list) or len(shape) > MOST_DIMS:
            raise ValueError("it is no place of a tensor")
        if not _is_size(at) or not all(map(_is_size, shape)):
            raise ValueError("it is no place of a tensor")
        return cls(dtype, tuple(shape), at)


@dataclass(frozen=True)
class Call:
    """Inputs, in the model's order, and from where on answers may be written."""

    inputs: tuple[Lying, ...]
    out: int  # byte
    model: int = 0  # of the job's
    deadline: float | None = None  # seconds by the machine's clock that only runs; null: none
    heard: float | None = None  # when the answer before this call was read, by the same clock
    protocol: int = PROTOCOL

    @property
    def said(self) -> dict[str, Any]:
        record = {"protocol": self.protocol, "inputs": [one.said for one in self.inputs], "out": self.out}
        more: dict[str, Any] = {"model": self.model} if self.model else {}
        if self.deadline is not None:
            more["deadline"] = self.deadline
        if self.heard is not None:
            more["heard"] = self.heard
        return record | more

    @classmethod
    def decode(cls, packet: bytes) -> Call:
        """Raise ValueError for anything else."""
        return cls.of(parsed_record(packet))

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Call:
        inputs, out, protocol = record.get("inputs"), record.get("out"), record.get("protocol")
        if protocol != PROTOCOL:
            raise ValueError(f"protocol {protocol} was spoken, and this model speaks {PROTOCOL}")
        if not isinstance(inputs, list) or len(inputs) > MOST_TENSORS or not isinstance(out, int) or not _is_size(out):
            raise ValueError("it is no call")
        model, deadline, heard = record.get("model", 0), record.get("deadline"), record.get("heard")
        if not _is_size(model) or not _is_time(deadline) or not _is_time(heard):
            raise ValueError("it is no call")
        return cls(tuple(map(Lying.of, inputs)), out, model, deadline, heard)


@dataclass(frozen=True)
class CallReply:
    """What came of a call: where its answers lie, or why there are none."""

    outputs: tuple[Lying, ...] = ()
    bad: str = ""  # the call is wrong
    failed: str = ""  # the model is
    left: str = ""  # it does not run any more: half a sentence
    waiting: int = 0  # its queue is full with so many
    late: bool = False  # it could not be answered by its deadline
    taken: bool = False  # and that has shown only after it was taken
    seconds: float = 0.0  # after which there is room in the queue, or it could be answered

    @property
    def said(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value} | {
            "outputs": [one.said for one in self.outputs]
        }

    @classmethod
    def decode(cls, packet: bytes) -> CallReply:
        found = parsed_record(packet)
        outputs = tuple(map(Lying.of, found.pop("outputs", ())))
        return cls(outputs, **known(cls, found)) if found else cls(outputs)


def encode(message: Call | CallReply | Mapping[str, Any]) -> bytes:
    return _ENCODER.encode(message if isinstance(message, Mapping) else message.said).encode()


def aligned(at: int) -> int:
    """The next byte at which a tensor may begin."""
    return -(-at // ALIGNED) * ALIGNED


def lay_out(sizes: Sequence[int], begin: int = 0) -> tuple[list[int], int]:
    """Where tensors of so many bytes lie one after the other, and the first byte behind them."""
    places, at = [], begin
    for size in sizes:
        at = aligned(at)
        places.append(at)
        at += size
    return places, aligned(at)


def _is_time(value: object) -> bool:
    return value is None or (type(value) is float and isfinite(value))


def _is_size(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 48
