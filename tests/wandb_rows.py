"""What a run of Weights & Biases wrote offline."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def rows_of(file: str) -> dict[str, list[int]]:
    """The steps at which each key was logged."""
    wandb = import_module("wandb.proto.wandb_internal_pb2")
    found: dict[str, list[int]] = {}
    for each in _records(Path(file).read_bytes()):
        record: Any = wandb.Record.FromString(each)
        for item in record.history.item:
            key = item.key or item.nested_key[0]
            if not key.startswith("_"):
                found.setdefault(key, []).append(record.history.step.num)
    return found


def _records(data: bytes) -> Iterator[bytes]:
    """Of a LevelDB log with a head of 7 bytes: blocks of 32 KiB of parts (checksum, length, whether it is the last)."""
    at, record = 7, b""
    while at + 7 <= len(data):
        left, size, kind = 32768 - at % 32768, int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        if left < 7 or not kind:
            at += left
            continue
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):
            yield record
            record = b""
