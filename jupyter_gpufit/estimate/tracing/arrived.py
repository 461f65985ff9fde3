"""What the notebook has on its own `cuda` arrives in a traced child as on the device: fakes, one storage for all views.

They cannot be made so later: a tensor that is real stays real (see modules.py).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ...cuda.stand_in.device import STAND_IN
from ...cuda.stand_in.sparse_fake import SparseFake
from ...devices import sides
from .books import Books

LATE = "_gpufit_late"  # a parameter's without a shape: it is the device's
_CAME = "_gpufit_came"  # a fake storage's: the bytes in its place


class OnStandIn:
    """See devices/sides.py: `here`, in a traced child."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self.found: list[torch.Tensor] = []  # until all has arrived; what nobody holds then is freed, and on record

    def storage(self, made: torch.UntypedStorage) -> torch.UntypedStorage:
        with self._books.fake:
            fake = torch.empty(made.nbytes(), dtype=torch.uint8, device=torch.device(STAND_IN, 0))
        self.found.append(fake)
        self._books.enter(fake, "arrived", "input")
        there = fake.untyped_storage()
        setattr(there, _CAME, made)
        return there

    def tensor(self, storage: torch.UntypedStorage, dtype: torch.dtype, *look: Any) -> torch.Tensor:
        with self._books.fake:
            there = torch.empty(0, dtype=dtype, device=torch.device(STAND_IN, 0)).set_(storage, *look)
        if (came := getattr(storage, _CAME, None)) is not None:  # a length that a module keeps in a buffer, say
            self._books.known.arrived(torch.empty(0, dtype=dtype).set_(came, *look), there)
        return there

    def sparse(
        self, layout: torch.layout, parts: list[torch.Tensor], size: tuple[int, ...], coalesced: bool
    ) -> torch.Tensor:
        return SparseFake(layout, parts, size, coalesced)

    def lazy(self, cls: Any, requires_grad: bool, dtype: torch.dtype) -> Any:
        """It gets its memory on the CPU, and goes to the device then: see modules.py."""
        made = cls(requires_grad, "cpu", dtype)
        vars(made)[LATE] = True
        return made

    def as_class(self, cls: Any, made: torch.Tensor) -> Any:
        if not issubclass(cls, nn.Parameter):
            return made.as_subclass(cls) if cls.__torch_dispatch__ is torch.Tensor.__torch_dispatch__ else made
        self._books.label(made, "parameter")
        return nn.Parameter(made, requires_grad=False)


def begin(books: Books) -> OnStandIn:
    """To be called before the variables are opened."""
    here = OnStandIn(books)
    sides.arrive_as(here)
    return here
