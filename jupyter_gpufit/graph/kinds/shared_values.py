"""What processes that are forked have in common: multiprocessing's values, arrays, locks and events, and C data.

Their bytes go beside the graph as an array's do (spans), so that a view of NumPy's or a tensor on an mp.Array stands on
it there, too; and what was shared is shared with the processes that the worker forks: those of a DataLoader, say. With
those that live already nothing can be shared from there, so that what they may have is refused.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from multiprocessing import sharedctypes, synchronize
from typing import Any

from ..kind import Kind, Pickler, Reduced
from ..opening import Opener
from ..refusals import why_not

_DATA = (ctypes._SimpleCData, ctypes.Array, ctypes.Structure, ctypes.Union)
_ADDRESSES = "PzZO"  # the letters of ctypes for void *, char *, wchar_t * and an object of Python's
_LOCKS = (synchronize.Lock, synchronize.RLock)
_COUNTS = (synchronize.Semaphore, synchronize.BoundedSemaphore)


def find(cls: type) -> Kind | None:
    if issubclass(cls, _DATA):
        return None if _points(cls) else Kind(reduce=reduce_data)
    if issubclass(cls, sharedctypes.SynchronizedBase):
        return Kind(reduce=reduce_synchronized)
    if cls in _LOCKS:
        return Kind(reduce=reduce_lock)
    if cls in _COUNTS:
        return Kind(reduce=reduce_count, state=lambda count: count._semlock._get_value(), fill=fill_count)
    if cls is synchronize.Condition:
        return Kind(reduce=reduce_condition)
    if cls is synchronize.Event:
        return Kind(reduce=reduce_event)
    return None


def _points(cls: Any) -> bool:
    """Whether there are addresses in it, which are good in this process only."""
    if not isinstance(cls, type) or not issubclass(cls, _DATA):
        return True  # a pointer, or a function
    if issubclass(cls, ctypes.Array):
        return _points(cls._type_)
    if issubclass(cls, ctypes._SimpleCData):
        letter = next(vars(base)["_type_"] for base in cls.__mro__ if "_type_" in vars(base))
        return letter in _ADDRESSES
    return any(_points(field[1]) for base in cls.__mro__ for field in vars(base).get("_fields_", ()))


def reduce_data(data: Any, pickler: Pickler) -> Reduced:
    if _is_shared(data) and _others_have_it(pickler):
        return pickler.refuse(data, why_not(sharedctypes.SynchronizedBase) or "")
    number = pickler.recorder.number(ctypes.addressof(data), ctypes.sizeof(data), data)
    own = {name: value for name, value in vars(data).items() if name != "_wrapper"}
    return make_data, (_described(type(data)), pickler.recorder, number, own or None)


def _is_shared(data: Any) -> bool:
    return "_wrapper" in getattr(data, "__dict__", ())


def _others_have_it(pickler: Pickler) -> bool:
    """Whether processes of the notebook's may wait for what the cell would do elsewhere."""
    return not pickler.back and bool(multiprocessing.active_children())


def _described(cls: Any) -> Any:
    """An array's class has no name by which it is found."""
    is_plain = issubclass(cls, ctypes.Array) and cls is cls._type_ * cls._length_
    return (_described(cls._type_), cls._length_) if is_plain else cls


def _class_of(described: Any) -> Any:
    return _class_of(described[0]) * described[1] if isinstance(described, tuple) else described


def make_data(described: Any, opener: Opener, number: int, own: dict[str, Any] | None) -> Any:
    buffer, offset, _ = opener.place(number)
    made = _class_of(described).from_buffer(buffer, offset)
    vars(made).update(own or {})
    return made


def reduce_synchronized(value: Any, pickler: Pickler) -> Reduced:
    return sharedctypes.synchronized, (value._obj, value._lock)


def reduce_lock(lock: Any, pickler: Pickler) -> Reduced:
    if _others_have_it(pickler) or not lock._semlock._get_value():
        return pickler.refuse(lock, why_not(type(lock)) or "")
    return make_lock, (type(lock),)


def make_lock(cls: Any) -> Any:
    return cls(ctx=multiprocessing.get_context())


def reduce_count(count: Any, pickler: Pickler) -> Reduced:
    if _others_have_it(pickler):
        return pickler.refuse(count, why_not(type(count)) or "")
    value, most = count._semlock._get_value(), count._semlock.maxvalue
    return make_count, (type(count), value, most)


def make_count(cls: Any, value: int, most: int) -> Any:
    made = cls(most if cls is synchronize.BoundedSemaphore else value, ctx=multiprocessing.get_context())
    fill_count(made, value)
    return made


def fill_count(count: Any, value: int) -> None:
    while count._semlock._get_value() > value:
        count.acquire(False)
    while count._semlock._get_value() < value:
        count.release()


def reduce_condition(condition: Any, pickler: Pickler) -> Reduced:
    waiting = condition._sleeping_count._semlock._get_value() - condition._woken_count._semlock._get_value()
    if _others_have_it(pickler) or waiting:
        return pickler.refuse(condition, why_not(type(condition)) or "")
    return make_condition, (condition._lock,)


def make_condition(lock: Any) -> Any:
    return synchronize.Condition(lock, ctx=multiprocessing.get_context())


def reduce_event(event: Any, pickler: Pickler) -> Reduced:
    return make_event, (event._cond, event._flag)


def make_event(condition: Any, flag: Any) -> Any:
    made: Any = object.__new__(synchronize.Event)
    made._cond, made._flag = condition, flag
    return made
