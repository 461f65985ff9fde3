"""On which side memory is that a notebook knows: its device's (`cuda`), or the host's.

Where `cuda` is a stand-in all memory is the host's, and a note on a storage tells the side. The note goes along. What
becomes of it at the other end is `here`: a note again where `cuda` is a stand-in, memory of a device where there is
one, a fake in an estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import torch

Side = Literal["slot", "host"]
NOTE = "_gpufit_side"
AWAY = "_gpufit_away"  # on a storage whose bytes are not on this device: a function that tells where the host has them


def on_device(storage: torch.UntypedStorage) -> bool:
    """Whether the notebook knows this memory as its device's."""
    return storage.device.type == "cuda" or getattr(storage, NOTE, None) == "slot"


def lies(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    """Where its bytes are just now: a plan may have put them on the host (see fit/rungs/pager.py)."""
    away = getattr(storage, AWAY, None)
    found: torch.UntypedStorage = storage if away is None else away()
    return found


def notes_of(storage: torch.UntypedStorage) -> dict[str, Any]:
    """What goes along with it; where its bytes are just now is no part of it."""
    return {name: note for name, note in getattr(storage, "__dict__", {}).items() if name != AWAY}


def generator_on_device(generator: torch.Generator) -> bool:
    """Whether a random generator is the device's: in the host's memory it is of a class of its own."""
    return generator.device.type == "cuda" or type(generator) is not _Generator


_Generator = torch._C.Generator


def note(tensor: torch.Tensor) -> None:
    """Note that a tensor is the device's, where nothing else is known: the gradient of one that is."""
    for part in [tensor] if tensor.layout is torch.strided else parts(tensor):
        if part.device.type == "cpu" and getattr(storage := part.untyped_storage(), NOTE, None) is None:
            setattr(storage, NOTE, "slot")


def parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that a sparse one consists of, its values last; it has no memory of its own."""
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return []


class Here(Protocol):
    """What a storage of the device's, and the tensors on it, are made in this process."""

    def storage(self, made: torch.UntypedStorage) -> torch.UntypedStorage:
        """In place of one that was made in the host's memory."""

    def tensor(self, storage: torch.UntypedStorage, dtype: torch.dtype, *look: Any) -> torch.Tensor:
        """On such a storage; `look` is its offset, size and stride."""

    def sparse(
        self, layout: torch.layout, parts: list[torch.Tensor], size: tuple[int, ...], coalesced: bool
    ) -> torch.Tensor:
        """Of what `parts` gives."""

    def as_class(self, cls: type, made: torch.Tensor) -> Any:
        """A parameter, or what else it is."""

    def lazy(self, cls: Any, requires_grad: bool, dtype: torch.dtype) -> Any:
        """A parameter or buffer of the device's that has no shape yet."""


class Noted:
    """`cuda` is a stand-in, or not there: a note in the host's memory."""

    def storage(self, made: torch.UntypedStorage) -> torch.UntypedStorage:
        global is_used
        setattr(made, NOTE, "slot")
        is_used = True
        return made

    def tensor(self, storage: torch.UntypedStorage, dtype: torch.dtype, *look: Any) -> torch.Tensor:
        return torch.empty(0, dtype=dtype, device="cpu").set_(storage, *look)

    def sparse(
        self, layout: torch.layout, parts: list[torch.Tensor], size: tuple[int, ...], coalesced: bool
    ) -> torch.Tensor:
        more = (coalesced,) if layout is torch.sparse_coo else ()
        made: torch.Tensor = torch._utils._rebuild_sparse_tensor(layout, (*parts[:-1], parts[-1], size, *more))
        return made

    def as_class(self, cls: type, made: torch.Tensor) -> Any:
        return torch.Tensor._make_subclass(cls, made, False)

    def lazy(self, cls: Any, requires_grad: bool, dtype: torch.dtype) -> Any:
        made = cls(requires_grad, "cpu", dtype)
        self.storage(made.untyped_storage())
        return made


class OnGpu(Noted):
    """A worker that holds a GPU: there."""

    def lazy(self, cls: Any, requires_grad: bool, dtype: torch.dtype) -> Any:
        return cls(requires_grad, "cuda", dtype)

    def storage(self, made: torch.UntypedStorage) -> torch.UntypedStorage:
        on_gpu: torch.UntypedStorage = made.cuda()  # type: ignore[assignment]
        return on_gpu

    def tensor(self, storage: torch.UntypedStorage, dtype: torch.dtype, *look: Any) -> torch.Tensor:
        return torch.empty(0, dtype=dtype, device=storage.device).set_(storage, *look)


here: Here = Noted()
is_told = False  # whether notes are kept in this process: else a tensor without one may be anybody's
is_used = False  # whether any was made: until then no operation need look for one


def arrive_as(chosen: Here) -> None:
    """From now on, in this process."""
    global here
    here = chosen


def has_arrived(storage: torch.UntypedStorage) -> None:
    """To be called for each storage that came to the device in this process, filled: a plan may have no room for it."""
    for told in tell_arrived:
        told(storage)


tell_arrived: list[Callable[[torch.UntypedStorage], None]] = []
