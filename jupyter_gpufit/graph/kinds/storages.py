"""The bytes that tensors stand on, beside the graph. Loaded only where torch is."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import torch

from ...devices import sides
from ..kind import Kind, Pickler, Reduced
from ..opening import Opener
from ..spans import LARGE


def reduce_storage(storage: torch.UntypedStorage, pickler: Pickler) -> Reduced:
    where = sides.lies(storage)
    nbytes = where.nbytes()
    if where.device.type == "cpu":
        number = pickler.recorder.number(where.data_ptr(), nbytes, where)
    else:
        number = pickler.recorder.foreign(nbytes, lambda buffer: _copy_to(buffer, where))
    is_ours, may_change = sides.on_device(storage), 0 < nbytes < LARGE and where.resizable()
    shared = nbytes > 0 and not is_ours and where.device.type == "cpu" and where.is_shared()
    more = [is_ours, may_change, shared] if is_ours or may_change or shared else []
    return make_storage, (pickler.recorder, number, *more)


def _copy_to(buffer: Any, storage: torch.UntypedStorage) -> None:
    """From the device straight to where the bytes go."""
    source = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    torch.frombuffer(buffer, dtype=torch.uint8).copy_(source)


def make_storage(
    opener: Opener, number: int, on_device: bool = False, may_change: bool = False, shared: bool = False
) -> torch.UntypedStorage:
    """`may_change`: its size, as that of an observer's or of an `out=`: torch must have made it.

    `shared`: with processes that are to come, which train a model in it (`share_memory()`).
    """
    buffer, offset, nbytes = opener.place(number)
    made = torch.UntypedStorage(0)
    if (may_change or shared) and opener.stands_alone(number):
        made = own_storage(opener.view(number), shared=shared)
        opener.has_moved(number, made)
    elif nbytes:
        made = torch.frombuffer(buffer, dtype=torch.uint8, offset=offset, count=nbytes).untyped_storage()
    if not on_device:
        return made
    there = sides.here.storage(made)
    sides.has_arrived(there)
    return there


def own_storage(found: memoryview, *, shared: bool = False) -> torch.UntypedStorage:
    """With a copy of these bytes."""
    made = new_shared(found.nbytes) if shared else torch.UntypedStorage(found.nbytes)
    memoryview((ctypes.c_char * found.nbytes).from_address(made.data_ptr())).cast("B")[:] = found
    return made


def new_shared(nbytes: int) -> torch.UntypedStorage:
    """With processes that are forked from now on, also where no files of shared memory may be made: a trial run's."""
    try:
        made: torch.UntypedStorage = torch.UntypedStorage._new_shared(nbytes)
    except RuntimeError:
        made = torch.frombuffer(mmap.mmap(-1, nbytes), dtype=torch.uint8).untyped_storage()
    return made


def storage_mark(storage: torch.UntypedStorage) -> tuple[int, int]:
    where = sides.lies(storage)
    return 0 if storage.device.type == "cuda" else storage.data_ptr(), where.nbytes()  # a plan may move it there


def fill_storage(storage: torch.UntypedStorage, new: torch.UntypedStorage) -> None:
    """Its bytes lie elsewhere now (`share_memory_`, `resize_`)."""
    if storage.nbytes() != new.nbytes():
        storage.resize_(new.nbytes())
    storage.copy_(new)


def reduce_typed(storage: Any, pickler: Pickler) -> Reduced:
    return make_typed, (storage._untyped_storage, storage.dtype)


def make_typed(untyped: torch.UntypedStorage, dtype: torch.dtype) -> Any:
    return torch.storage.TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


KINDS: dict[type, Kind] = {
    torch.UntypedStorage: Kind(
        reduce=reduce_storage, state=torch.UntypedStorage.clone, fill=fill_storage, mark=storage_mark
    ),
    torch.storage.TypedStorage: Kind(reduce=reduce_typed),
}
