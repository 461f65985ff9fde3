"""Operators that fake tensors do not know, computed on the CPU with ones in place of the values, for the shapes.

Where shapes hang on values, they are those of ones; it is noted. What is too large for that stays unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_leaves, tree_map

from ...cuda.stand_in.device import STAND_IN, on_stand_in
from ...units import MiB

if TYPE_CHECKING:
    from .books import Books

_MOST = 256 * MiB  # of ones


def by_example(books: Books, func: Any, args: Any, kwargs: Any) -> Any:
    """What the operator makes, entered in the books by the caller; raises what the CPU's kernel raises."""
    given = [t for t in tree_leaves((args, kwargs)) if on_stand_in(t)]
    if func._schema.is_mutable or sum(t.numel() * t.element_size() for t in given) > _MOST:
        raise NotImplementedError(f"Could not run {func} on the {STAND_IN}")
    books.notes[f"shapes of {func._schema.name.partition('::')[2]} as on the CPU"] += 1
    with no_dispatch():
        real = tree_map(_ones, (args, kwargs))
        made = func(*real[0], **real[1])
    return tree_map(lambda t: _fake(books, t), made)


def _ones(value: Any) -> Any:
    if isinstance(value, torch.Generator):
        return None
    return torch.ones(value.shape, dtype=value.dtype, device="cpu") if on_stand_in(value) else value


def _fake(books: Books, t: Any) -> Any:
    if not isinstance(t, torch.Tensor):
        return t
    with books.fake:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=torch.device(STAND_IN, 0))
