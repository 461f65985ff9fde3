"""What torch.save writes on a slot, and torch.load reads there.

The file says `cpu` of what was on a slot, so that it can be loaded where there is no GPU. Which that was stands beside
it in a record of our own, that any torch passes over: on a slot it comes back as being there, as from a GPU on a GPU.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import torch
from torch import serialization

from ...devices import sides
from .side import SLOT, note, side_named

_RECORD = "gpufit_slot"
_BEFORE_ALL = 0  # the priority of a package in torch.serialization; the CPU's is 10


@contextmanager
def loading(slot: str, stands_for_gpu: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Let torch.load put what was on a GPU or a slot, or is wanted on one, on the slot.

    Where it `stands_for_gpu`, torch.save notes it as a GPU's.
    """
    saving = threading.local()

    def tag(storage: Any) -> str | None:
        untyped = getattr(storage, "_untyped_storage", storage)
        on_slot = getattr(untyped, sides.NOTE, None) == "slot"
        if (met := getattr(saving, "met", None)) is not None and untyped.nbytes():
            met.setdefault(untyped._cdata, on_slot)
        return str(SLOT) if on_slot and stands_for_gpu() else None

    def place(storage: Any, location: str) -> Any:
        side = side_named(location, slot) if location.startswith(("cuda", "cpu")) else None
        if side and isinstance(storage, torch.UntypedStorage):
            note(storage, side)
        return storage if side else None

    def save(obj: Any, file: Any, *args: Any, **kwargs: Any) -> None:
        saving.met = {}
        try:
            written(obj, file, *args, **kwargs)
            there = [number for number, on_slot in enumerate(saving.met.values()) if on_slot]
        finally:
            del saving.met
        if there and not stands_for_gpu():
            record = json.dumps(there).encode()
            file.write_record(_RECORD, record, len(record))

    names: Any = serialization
    written, read = names._save, names._load
    serialization.register_package(_BEFORE_ALL, tag, place)
    names._save, names._load = wraps(written)(save), as_of_cuda(read)
    try:
        yield
    finally:
        names._save, names._load = written, read
        registry = serialization._package_registry
        registry[:] = [entry for entry in registry if entry[2] is not place]


def as_of_cuda(read: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's reader, to which a file says `cuda:0` of what was on a slot."""

    @wraps(read)
    def load(file: Any, map_location: Any, *args: Any, **kwargs: Any) -> Any:
        there = json.loads(file.get_record(_RECORD)) if file.has_record(_RECORD) else []
        return read(file, _as_of_cuda(map_location, there) if there else map_location, *args, **kwargs)

    return load


def _as_of_cuda(map_location: Any, numbers: list[int]) -> Any:
    """As if the file said `cuda:0` of these storages: they are counted as they come, the empty ones aside."""
    if isinstance(map_location, (str, bytes, torch.device)):
        return map_location
    wanted, count = frozenset(numbers), 0
    names = map_location if isinstance(map_location, dict) else {}

    def where(storage: Any, location: str) -> Any:
        nonlocal count
        if storage.nbytes():
            location = str(SLOT) if count in wanted else location
            count += 1
        found = map_location(storage, location) if callable(map_location) else None
        return found or serialization.default_restore_location(storage, names.get(location, location))

    return where
