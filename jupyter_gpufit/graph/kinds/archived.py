"""Objects of a class written in Python that pickles them in a way of its own, made for storing.

It may write an archive, from which another object is made, and its parts anew: the notebook's own would never be
trained. So such an object travels as its attributes, unless these lead to what cannot travel, or it is found again by
plain values, as a logger is by its name. Of such a one its way is taken, and on the way back it becomes what that
makes.
"""

from __future__ import annotations

import copyreg
import hashlib
import pickle
from collections import deque
from types import FunctionType
from typing import Any

from cloudpickle.cloudpickle import _should_pickle_by_reference

from ...system.objects import module_of
from ..kind import Kind, Pickler, Reduced, kind_of
from .generic import fill_generic, generic_state, reduce_generic, reduced
from .instances import (
    MANY,
    STORABLE,
    fill_instance,
    holds_refused,
    inside,
    instance_state,
    is_laid_out_plainly,
    make,
    storable_mark,
)

_OURS = __name__.partition(".")[0] + "."


def find(cls: type) -> Kind | None:
    return ARCHIVED if _archives(cls) else None


def _archives(cls: type) -> bool:
    """Whether its objects are their attributes, whatever they say when they are pickled."""
    ways = (cls.__reduce_ex__, cls.__reduce__)
    return (
        cls.__dictoffset__ != 0
        and is_laid_out_plainly(cls)
        and any(isinstance(way, FunctionType) for way in ways)
        and cls not in copyreg.dispatch_table
        and not module_of(cls).startswith(_OURS)  # which mean what they say
        and (cls.__module__ == "__main__" or _should_pickle_by_reference(cls))
    )


def _is_trained(obj: Any) -> bool:
    """Whether a tensor or an array is among what it holds."""
    known: dict[type, Kind] = {}
    seen: set[int] = {id(obj)}
    todo = deque[Any](inside(obj, STORABLE))
    while todo and len(seen) < MANY:
        value = todo.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if _is_array(type(value)):
            return True
        kind = kind_of(type(value), known)
        todo.extend(inside(value, STORABLE if kind is ARCHIVED else kind))
    return False


def _is_array(cls: type) -> bool:
    return any(one.__name__ in ("Tensor", "ndarray") for one in cls.__mro__)


_VALUES = (str, bytes, int, float, complex, bool, type(None), type, FunctionType)


def _goes_by_values(obj: Any) -> bool:
    """Whether its own way is taken: it is made, or found again, by values that no training changes."""
    if _is_trained(obj):
        return False
    if type(obj).__module__ == "__main__":
        return True  # the user's own way, which may be to refuse
    try:
        found = reduced(obj)
    except NotImplementedError:
        return False  # it is a part of something that knows a way
    except Exception:
        return True
    return isinstance(found, str) or (len(found) == 2 and _are_values(found[1]))


def _are_values(found: tuple[Any, ...]) -> bool:
    return all(isinstance(one, _VALUES) or (type(one) is tuple and _are_values(one)) for one in found)


def reduce_archived(obj: Any, pickler: Pickler) -> Reduced:
    if not _goes_by_values(obj) and not holds_refused(obj, pickler, stored=False):
        return *make(obj, pickler), ("as it is", *instance_state(obj)), None, None, fill_archived
    return reduce_generic(obj, pickler)


def archived_state(obj: Any) -> Any:
    if not _goes_by_values(obj) and not holds_refused(obj, stored=False):
        return "as it is", *instance_state(obj)
    found = reduced(obj)
    if isinstance(found, str):
        return None
    return ("its way", generic_state(obj)) if len(found) > 2 else ("anew", *found[:2])


def archived_mark(obj: Any) -> Any:
    if not _goes_by_values(obj):
        return storable_mark(obj)
    try:
        return hashlib.blake2b(pickle.dumps(reduced(obj), 5)).digest()
    except Exception:
        return object()


def fill_archived(obj: Any, state: Any) -> None:
    way, *what = state
    if way == "as it is":
        fill_instance(obj, tuple(what))
    elif way == "its way":
        fill_generic(obj, what[0])
    else:
        made = what[0](*what[1])
        if made is not obj:
            fill_instance(obj, instance_state(made))


ARCHIVED = Kind(reduce=reduce_archived, state=archived_state, fill=fill_archived, mark=archived_mark)
