"""A DataLoader's standing worker processes, where they are in another process: new ones go on in their place.

Its next epoch draws no seed for them, as it would have drawn none for those that stand: so what the samplers draw, and
all that comes after, is the same. What workers draw for themselves begins anew, from a seed that follows from theirs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

BEGIN_ANEW = (
    "The workers of a DataLoader that stay for its next epoch (persistent_workers) are started anew: the order of its"
    " batches is what it would have been, the random numbers that they draw themselves are others."
)


class StandingElsewhere:
    """Stands in a loader for the iterator that has them: a loader begins each epoch by `_reset` of that."""

    def __init__(self, seed: int) -> None:
        self._base_seed = seed

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        own = loader.generator
        loader.generator = torch.Generator().manual_seed(self._base_seed)
        try:
            loader._iterator = loader._get_iterator()
        finally:
            loader.generator = own


def seed_of(iterator: Any) -> int | None:
    return getattr(iterator, "_base_seed", None)


def that_stands(here: Any, seed: int | None) -> Any:
    """What a loader has as its iterator now: its own, where that has processes, or one in place of another's."""
    if isinstance(here, _BaseDataLoaderIter):
        return here
    return None if seed is None else StandingElsewhere(seed)
