"""Lists, dicts, sets and their subclasses: refilled in place, by the base class's own methods, not the subclass's."""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .instances import attributes, set_attributes


def fill_list(obj: list[Any], items: list[Any]) -> None:
    obj[:] = items


def fill_dict(obj: dict[Any, Any], items: dict[Any, Any]) -> None:
    obj.clear()
    obj.update(items)


def fill_set(obj: set[Any], items: list[Any]) -> None:
    # From a list and never from a set: a set that is rebuilt from another set iterates in yet another order.
    obj.clear()
    obj.update(items)


def fill_bytes(obj: Any, contents: bytes) -> None:
    del obj[:]
    obj += contents


def fill_array(obj: array[Any], contents: bytes) -> None:
    del obj[:]
    obj.frombytes(contents)


@dataclass(frozen=True)
class _Base:
    """A container type by its own methods, whatever a subclass overrides."""

    read: Callable[[Any], Any]
    refill: Callable[[Any, Any], None]
    hashes: bool = False


def _refill_list(obj: Any, items: Any) -> None:
    list.clear(obj)
    list.extend(obj, items)


def _refill_dict(obj: Any, items: Any) -> None:
    dict.clear(obj)
    dict.update(obj, items)


def _refill_ordered(obj: Any, items: Any) -> None:
    OrderedDict.clear(obj)
    for key, value in items.items():
        OrderedDict.__setitem__(obj, key, value)


def _refill_set(obj: Any, items: Any) -> None:
    set.clear(obj)
    set.update(obj, items)


def _refill_deque(obj: Any, items: Any) -> None:
    deque.clear(obj)
    deque.extend(obj, items)


def _read_dict(obj: Any) -> dict[Any, Any]:
    return dict(dict.items(obj))


def _read_ordered(obj: Any) -> dict[Any, Any]:
    return dict(OrderedDict.items(obj))


def _read_items(base: type) -> Callable[[Any], list[Any]]:
    iterate = base.__dict__["__iter__"]
    return lambda obj: list(iterate(obj))


_BASES: dict[type, _Base] = {  # a subclass of two of them is one of the first
    OrderedDict: _Base(_read_ordered, _refill_ordered, hashes=True),
    dict: _Base(_read_dict, _refill_dict, hashes=True),
    list: _Base(_read_items(list), _refill_list),
    set: _Base(_read_items(set), _refill_set, hashes=True),
    deque: _Base(_read_items(deque), _refill_deque),
}
_EXACT = {  # pickle itself writes these
    list: Kind(state=list.copy, fill=fill_list),
    dict: Kind(state=dict.copy, fill=fill_dict, hashes=True),
    set: Kind(state=list, fill=fill_set, hashes=True),
    bytearray: Kind(state=bytes, fill=fill_bytes),
}
_OF_PYTHON = frozenset(cls.__reduce__ for cls in (object, OrderedDict, defaultdict, deque, set, Counter))


def base_of(cls: type) -> type:
    return next(base for base in _BASES if issubclass(cls, base))


def find(cls: type) -> Kind | None:
    if cls in _EXACT:
        return _EXACT[cls]
    if cls is array:
        return Kind(reduce=reduce_array, state=array.tobytes, fill=fill_array)
    if not issubclass(cls, tuple(_BASES)) or _knows_how_it_is_made(cls):
        return None
    return Kind(reduce=reduce_container, state=container_state, fill=fill_container, hashes=_BASES[base_of(cls)].hashes)


def _knows_how_it_is_made(cls: Any) -> bool:
    """By a `__reduce__` of its own, which no class below it has given another `__init__` (torchphysics' spaces)."""
    if cls.__reduce__ in _OF_PYTHON:
        return False
    reduced, made = (
        next(n for n, one in enumerate(cls.__mro__) if way in vars(one)) for way in ("__reduce__", "__init__")
    )
    return reduced <= made


def reduce_array(obj: array[Any], pickler: Pickler) -> Reduced:
    return make_array, (obj.typecode, obj.tobytes())


def make_array(typecode: str, contents: bytes) -> array[Any]:
    return array(typecode, contents)


def container_state(obj: Any) -> tuple[Any, ...]:
    factory = obj.default_factory if isinstance(obj, defaultdict) else None
    return _BASES[base_of(type(obj))].read(obj), factory, attributes(obj)


def reduce_container(obj: Any, pickler: Pickler) -> Reduced:
    limit = obj.maxlen if isinstance(obj, deque) else None
    return make_container, (type(obj), limit), container_state(obj), None, None, fill_container


def make_container(cls: type, limit: int | None) -> Any:
    base: Any = defaultdict if issubclass(cls, defaultdict) else base_of(cls)
    obj = base.__new__(cls)
    if isinstance(obj, deque):
        deque.__init__(obj, (), limit)
    return obj


def fill_container(obj: Any, state: tuple[Any, ...]) -> None:
    contents, factory, own = state
    if isinstance(obj, defaultdict):
        obj.default_factory = factory
    _BASES[base_of(type(obj))].refill(obj, contents)
    set_attributes(obj, own)
