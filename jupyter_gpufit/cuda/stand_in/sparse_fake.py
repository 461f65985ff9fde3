"""A sparse matrix on the stand-in, which torch's fake tensors cannot be: its indices and values are fake tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .device import told_device

COO = torch.sparse_coo


class SparseFake(torch.Tensor):
    """A sparse matrix without values. `parts`: its indices (of both kinds, if it is compressed), and its values."""

    parts: tuple[torch.Tensor, ...]
    coalesced: bool
    kind: torch.layout

    @staticmethod
    def __new__(
        cls, layout: torch.layout, parts: Sequence[torch.Tensor], size: Sequence[int], coalesced: bool = True
    ) -> SparseFake:
        values = parts[-1]
        made: SparseFake = torch.Tensor._make_wrapper_subclass(
            cls,
            size,
            dtype=values.dtype,
            device=true_device(values),
            layout=COO if layout is COO else torch.strided,
            dispatch_layout=layout is not COO,  # torch asks for it
        )
        made.kind = layout
        made.parts, made.coalesced = tuple(parts), coalesced
        return made

    def __init__(self, *given: Any, **more: Any) -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return told_device(torch.Tensor.device.__get__(self))

    def __repr__(self, **asked: Any) -> str:  # type: ignore[override]
        return f"tensor(size={tuple(self.shape)}, nnz={self.entries}, layout={self.kind}, device='cuda:0')"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise NotImplementedError(f"{func} of a sparse matrix without values")  # the books are always on

    @property
    def values_(self) -> torch.Tensor:
        return self.parts[-1]

    @property
    def entries(self) -> int:
        return self.values_.shape[0]

    def of_values(self, values: torch.Tensor, coalesced: bool | None = None) -> SparseFake:
        """Of the same pattern."""
        known = self.coalesced if coalesced is None else coalesced
        return SparseFake(self.kind, (*self.parts[:-1], values), self.shape, known)


def true_device(tensor: torch.Tensor) -> torch.device:
    """Not what the notebook is told."""
    found: torch.device = tensor.device
    return found
