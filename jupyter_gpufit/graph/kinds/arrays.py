"""NumPy arrays: their bytes are in the memory beside the graph, and arrays of objects are lists with a shape.

Loaded only where numpy is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..kind import Kind, Pickler, Reduced
from ..opening import Opener
from .generic import reduce_generic

try:
    from numpy.lib.array_utils import byte_bounds
except ImportError:  # before NumPy 2
    byte_bounds = np.byte_bounds  # type: ignore[attr-defined]

Array = np.ndarray[Any, Any]
_LIBRARY = (np.ndarray, np.memmap, np.matrix, np.recarray)


def find(cls: type) -> Kind | None:
    if issubclass(cls, np.ndarray) and cls.__reduce__ is np.ndarray.__reduce__:
        return Kind(reduce=reduce_array, state=array_state, fill=fill_array, mark=array_mark)
    if issubclass(cls, np.dtype | np.generic):
        return Kind(reduce=reduce_generic)
    if issubclass(cls, np.random.Generator) and cls is not np.random.Generator:
        return Kind(reduce=reduce_draws, state=lambda draws: dict(vars(draws)), fill=fill_draws)
    return None


def reduce_draws(draws: Any, pickler: Pickler) -> Reduced:
    """A generator of a class made of NumPy's; its bits are an object of their own. gym's own way is none in NumPy 2."""
    return make_draws, (type(draws), draws.bit_generator), dict(vars(draws)), None, None, fill_draws


def make_draws(cls: Any, bits: Any) -> Any:
    draws = cls.__new__(cls, bits)
    np.random.Generator.__init__(draws, bits)
    return draws


def fill_draws(draws: Any, own: dict[str, Any]) -> None:
    vars(draws).clear()
    vars(draws).update(own)


def reduce_array(a: Array, pickler: Pickler) -> Reduced:
    own = {name: value for name, value in getattr(a, "__dict__", {}).items() if name != "_mmap"}
    if a.dtype.kind == "O":
        return _reduce_objects(a, own, pickler)
    if a.dtype.hasobject:
        return reduce_generic(a, pickler)
    low, high = byte_bounds(a) if a.size else (0, 0)
    first = a.__array_interface__["data"][0]
    number = pickler.recorder.number(low, high - low, a, writable=a.flags.writeable)
    looks = (a.dtype, a.shape, a.strides, first - low if a.size else 0, a.flags.writeable)
    return make_array, (type(a), pickler.recorder, number, looks, own or None)


def make_array(cls: type, opener: Opener, number: int, looks: tuple[Any, ...], own: dict[str, Any] | None) -> Array:
    dtype, shape, strides, first, writable = looks
    buffer, offset, nbytes = opener.place(number)
    if not nbytes:
        return _as_class(np.empty(shape, dtype), cls, own)
    made: Array = np.ndarray(shape, dtype, buffer, offset + first, strides)
    if not writable:
        made.flags.writeable = False
    return _as_class(made, cls, own)


def _as_class(a: Array, cls: type, own: dict[str, Any] | None) -> Array:
    if cls is not np.ndarray:
        a = a.view(cls)
    if cls is np.memmap:
        a._mmap = None  # type: ignore[attr-defined]
    if own:
        a.__dict__.update(own)
    return a


# Arrays of Python objects: the objects are in the graph, and a view stands on the array that owns them.
def _reduce_objects(a: Array, own: dict[str, Any], pickler: Pickler) -> Reduced:
    owner = _owner(a)
    if owner is a or type(owner) is not np.ndarray or not owner.flags.forc:
        args = (type(a), a.shape, a.flags.f_contiguous and not a.flags.c_contiguous, own or None)
        return make_objects, args, list(a.flat), None, None, fill_objects
    first = a.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    return make_view, (type(a), owner, first // a.itemsize, a.shape, a.strides, a.flags.writeable, own or None)


def _owner(a: Array) -> Array:
    while isinstance(a.base, np.ndarray) and a.base.dtype == a.dtype:
        a = a.base
    return a


def make_objects(cls: type, shape: tuple[int, ...], columns: bool, own: dict[str, Any] | None) -> Array:
    return _as_class(np.empty(shape, object, order="F" if columns else "C"), cls, own)


def make_view(
    cls: type, owner: Array, first: int, shape: tuple[int, ...], strides: tuple[int, ...], writable: bool, own: Any
) -> Array:
    flat = owner.ravel(order="K")  # no copy: the owner is contiguous
    return _as_class(as_strided(flat[first:], shape, strides, writeable=writable), cls, own)


def fill_objects(a: Array, items: list[Any]) -> None:
    filled = np.fromiter(items, dtype=object, count=len(items))
    a[...] = filled.reshape(a.shape)


def array_mark(a: Array) -> Any:
    if a.dtype.kind == "O":
        return list(a.flat), a.shape
    where = a.__array_interface__["data"][0] if a.size else 0
    return f"{where} {a.shape} {a.strides} {a.flags.writeable}", a.dtype  # in one text: there may be very many


def array_state(a: Array) -> Any:
    """Its objects, or what it looks like if it looks different now."""
    return list(a.flat) if a.dtype.kind == "O" else (a.view(np.ndarray), a.flags.writeable)


def fill_array(a: Array, state: Any) -> None:
    if isinstance(state, list) and a.dtype.kind == "O":
        fill_objects(a, state)
        return
    new, writable = state
    if (a.shape, a.dtype) != (new.shape, new.dtype):
        order: Any = new.flags.f_contiguous and not new.flags.c_contiguous
        a.__setstate__((1, new.shape, new.dtype, order, new.tobytes("A")))
    elif not np.may_share_memory(a, new):
        a[...] = new
    a.flags.writeable = writable
