"""pandas: a frame is its index objects and its blocks of values, taken apart and put together again.

Copy-on-write holds on the other side, too: blocks that share their bytes know of each other there. Loaded only where
pandas is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from pandas._libs.arrays import NDArrayBacked
from pandas._libs.internals import BlockValuesRefs, _unpickle_block  # type: ignore[import-not-found]
from pandas.core.generic import NDFrame
from pandas.core.internals.managers import SingleBlockManager  # type: ignore[import-not-found]

from ..kind import Kind, Pickler, Reduced
from .generic import GENERIC, generic_state, reduce_generic
from .instances import make_instance

HAS_CACHE = "_item_cache" in vars(pd.DataFrame())  # of columns that were asked for; before pandas 3


def find(cls: type) -> Kind | None:
    if issubclass(cls, NDFrame):
        return Kind(reduce=reduce_frame, state=frame_state, fill=fill_frame)
    if issubclass(cls, pd.Index):
        return Kind(reduce=reduce_index, state=index_state, fill=fill_index)
    if issubclass(cls, NDArrayBacked):
        return Kind(reduce=reduce_generic, state=generic_state, fill=GENERIC.fill, mark=backed_mark)
    if cls is BlockValuesRefs:
        return Kind(reduce=reduce_references)
    return None


def frame_state(frame: Any) -> tuple[Any, ...]:
    manager = frame._mgr
    blocks = tuple((block.values, _place(block), block.ndim, block.refs) for block in manager.blocks)
    own = {name: value for name, value in vars(frame).items() if name not in ("_mgr", "_item_cache")}
    return type(manager), list(manager.axes), blocks, own


def _place(block: Any) -> Any:
    """Which columns a block holds: a slice, or their numbers."""
    where = block.mgr_locs.indexer
    return where if isinstance(where, slice) else tuple(where.tolist())


def reduce_frame(frame: Any, pickler: Pickler) -> Reduced:
    return make_instance, (type(frame),), frame_state(frame), None, None, fill_frame


def fill_frame(frame: Any, state: tuple[Any, ...]) -> None:
    manager, axes, pieces, own = state
    blocks = []
    for values, where, ndim, references in pieces:
        place = where if isinstance(where, slice) else np.array(where, dtype=np.intp)
        block = _unpickle_block(values, place, ndim)
        block.refs = references
        references.add_reference(block)
        blocks.append(block)
    whole = manager(blocks[0], axes[0]) if manager is SingleBlockManager else manager(tuple(blocks), axes, False)
    vars(frame).clear()
    vars(frame).update(own, _mgr=whole)
    if HAS_CACHE:
        object.__setattr__(frame, "_item_cache", {})


def reduce_references(references: Any, pickler: Pickler) -> Reduced:
    return BlockValuesRefs, ()


def reduce_index(index: Any, pickler: Pickler) -> Reduced:
    call, args, *_ = reduce_generic(index, pickler)
    return call, args, index_state(index), None, None, fill_index


def index_state(index: Any) -> tuple[Any, ...]:
    return tuple(index.names), vars(index).get("_references")  # a RangeIndex has no bytes to share


def fill_index(index: Any, state: tuple[Any, ...]) -> None:
    names, references = state
    if tuple(index.names) != names:
        index.names = list(names)
    if references is not None and vars(index).get("_references") is not references:
        index._references = references
        references.add_index_reference(index)


def backed_mark(array: Any) -> tuple[Any, ...]:
    return array._ndarray, array._dtype
