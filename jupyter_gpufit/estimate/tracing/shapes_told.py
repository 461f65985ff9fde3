"""How many values a mask takes nobody knows, and all are taken that it may. The shape that is asked for later tells.

As `x.masked_select(mask).view(n, 3, 32, 32)` does of crops: without this the cell ended here in its estimate. What was
taken stays as large in the books.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from . import recurrent
from .books import Books

_RESHAPING = (torch.Tensor.view, torch.Tensor.reshape, torch.reshape)
BOUND = "upper bound"  # with what a note of one begins


def kernels(books: Books) -> dict[Any, Callable[..., Any]]:
    """What stands for torch's functions in a traced cell."""
    return {**recurrent.KERNELS, **{real: functools.partial(_shaped, books, real) for real in _RESHAPING}}


def _shaped(books: Books, real: Callable[..., Any], t: Any, *shape: Any, **more: Any) -> Any:
    try:
        return real(t, *shape, **more)
    except RuntimeError:
        told = _told(t, more.get("shape", more.get("size", shape)))
        if told is None or not any(note.startswith(BOUND) for note in books.notes):
            raise
        return real(t.flatten()[:told], *shape, **more)


def _told(t: Any, shape: Any) -> int | None:
    """How many values make such a shape, if fewer than there are. None: more, or what is asked for is no shape."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    if not all(isinstance(size, int) for size in sizes):
        return None
    known = math.prod(size for size in sizes if size != -1)
    told = t.numel() // known * known if -1 in sizes and known > 0 else known
    return told if 0 < told < t.numel() else None
