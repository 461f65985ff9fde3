"""Smaller things: iterators at a position, views of dicts, files, and the standard streams."""

from __future__ import annotations

import codecs
import functools
import io
import itertools
import os
import re
import sys
import weakref
from collections import OrderedDict
from types import ClassMethodDescriptorType, GetSetDescriptorType, MappingProxyType, MethodType, SimpleNamespace
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import GENERIC, reduce_generic
from .instances import INSTANCE
from .streams import STREAMS, find_method, method_of

_AROUND_A_STREAM = (codecs.StreamWriter, codecs.StreamReader, codecs.StreamReaderWriter, codecs.StreamRecoder)
_NOTHING: dict[Any, Any] = {}
_ITERABLES: tuple[Any, ...] = (
    [],
    (),
    "",
    b"",
    range(0),
    range(1 << 70),
    set(),
    _NOTHING,
    _NOTHING.values(),
    _NOTHING.items(),
)
_NOTES = "_abc_impl"  # what Python's abc notes of a class is under this name
_of_notes: dict[int, weakref.ref[type]] = {}  # by its id(): the class
_ITERATORS = {*(type(iter(one)) for one in _ITERABLES), type(reversed([])), enumerate, zip, map, filter, reversed}


def find(cls: type) -> Kind | None:
    if (cls.__module__, cls.__name__) == ("numpy", "flatiter"):
        return Kind(reduce=reduce_flat, replaced=True)
    if (cls.__module__, cls.__name__) == ("_abc", "_abc_data"):
        return Kind(reduce=reduce_abc_data)
    if cls in _ITERATORS:
        # Where they are cannot be set in place for most of them, so the names that hold one get a new one.
        return Kind(reduce=reduce_generic, replaced=True)
    if cls is GetSetDescriptorType or cls is ClassMethodDescriptorType:
        return Kind(reduce=reduce_descriptor)
    if issubclass(cls, io.IOBase) and not issubclass(cls, io.StringIO | io.BytesIO):
        return Kind(reduce=reduce_file)
    if issubclass(cls, _AROUND_A_STREAM):
        return INSTANCE  # they refuse to be pickled, for the sake of those around an open file
    if issubclass(cls, SimpleNamespace):
        return Kind(reduce=reduce_namespace, state=lambda obj: dict(vars(obj)), fill=fill_namespace)
    return _KINDS.get(cls)


def reduce_descriptor(obj: Any, pickler: Pickler) -> Reduced:
    """What a class has under a name, where a library keeps all that a class has: Stable-Baselines3's wrappers do."""
    return find_descriptor, (obj.__objclass__, obj.__name__)


def find_descriptor(cls: type, name: str) -> Any:
    return vars(cls)[name]


def reduce_abc_data(obj: Any, pickler: Pickler) -> Reduced:
    """What Python's abc notes of a class: that of the same class, wherever an object keeps it beside."""
    cls = _noted(obj)
    if cls is None:
        # All are looked through, which takes as long as hundreds of objects: so what is found is kept.
        _of_notes.clear()
        _of_notes.update((id(notes), weakref.ref(one)) for one in _all_classes() if (notes := _notes(one)) is not None)
        cls = _noted(obj)
    if cls is None:
        return pickler.refuse(obj, "what Python's abc notes of a class that is gone.")
    return getattr, (cls, _NOTES)


def _noted(obj: Any) -> type | None:
    """The class that it was found at, if it is there still: another one may have its number by now."""
    found = _of_notes.get(id(obj))
    cls = found() if found is not None else None
    return cls if cls is not None and _notes(cls) is obj else None


def _notes(cls: type) -> Any:
    return vars(cls).get(_NOTES)


def _all_classes() -> set[type]:
    found: set[type] = {object}
    todo: list[type] = [object]
    while todo:
        below: set[type] = set(type.__subclasses__(todo.pop())) - found
        found |= below
        todo += below
    return found


def reduce_view(obj: MappingProxyType[Any, Any], pickler: Pickler) -> Reduced:
    """A read-only view shows the same dict there, not a copy of it."""
    target = _behind(obj)
    return MappingProxyType, (target if type(target) is dict else dict(obj),)


def _behind(proxy: MappingProxyType[Any, Any]) -> Any:
    return proxy | _Reveal()


class _Reveal:
    """`proxy | other` hands its own dict to `other`: the only way in Python to the dict behind a proxy."""

    def __ror__(self, other: Any) -> Any:
        return other


def reduce_dict_view(obj: Any, pickler: Pickler) -> Reduced:
    """`names = d.keys()` goes on showing what is in `d`."""
    return make_dict_view, (_behind(obj.mapping), _DICT_VIEWS[type(obj)])


def make_dict_view(target: Any, name: str) -> Any:
    # By the dict's own method, not by one of a subclass.
    return getattr(OrderedDict if isinstance(target, OrderedDict) else dict, name)(target)


# A match shows what was searched and what was found, but not by which call. That is tried out.
_CALLS = ("search", "match", "fullmatch")
_FAR = 10_000  # matches before it, of re.finditer()


def reduce_match(obj: re.Match[Any], pickler: Pickler) -> Reduced:
    args = (obj.string, obj.pos, obj.endpos)
    for call in _CALLS:
        if _same_match(obj, getattr(obj.re, call)(*args)):
            return find_match, (obj.re, call, args)
    for number, found in enumerate(itertools.islice(obj.re.finditer(*args), _FAR)):
        if _same_match(obj, found):
            return find_nth_match, (obj.re, number, args)
    return pickler.refuse(obj, "a match far into a text. Keep its text or its place: match.group(), match.span().")


def _same_match(one: re.Match[Any], other: re.Match[Any] | None) -> bool:
    return other is not None and (one.regs, one.lastindex) == (other.regs, other.lastindex)


def find_match(pattern: re.Pattern[Any], call: str, args: Any) -> Any:
    return getattr(pattern, call)(*args)


def find_nth_match(pattern: re.Pattern[Any], number: int, args: Any) -> Any:
    return next(itertools.islice(pattern.finditer(*args), number, None))


def reduce_flat(obj: Any, pickler: Pickler) -> Reduced:
    return make_flat, (obj.base, obj.index)


def make_flat(array: Any, index: int) -> Any:
    """An array's elements one by one, as np.ndenumerate() goes over them."""
    flat = array.flat
    for _ in itertools.islice(flat, index):
        pass
    return flat


def reduce_namespace(obj: SimpleNamespace, pickler: Pickler) -> Reduced:
    return make_namespace, (type(obj),), dict(vars(obj)), None, None, fill_namespace


def make_namespace(cls: type[SimpleNamespace]) -> SimpleNamespace:
    return cls.__new__(cls)


def fill_namespace(obj: SimpleNamespace, state: dict[str, Any]) -> None:
    vars(obj).clear()
    vars(obj).update(state)


def reduce_file(obj: Any, pickler: Pickler) -> Reduced:
    if (name := _stream_of(obj)) is not None:
        return find_stream, (name,)
    if obj.closed and isinstance(obj, io.TextIOWrapper | io.BufferedIOBase | io.RawIOBase):
        buffer = getattr(obj, "buffer", obj)
        kind = next((one.__name__ for one in _BUFFERS if isinstance(buffer, one)), "")
        is_text = isinstance(obj, io.TextIOWrapper)
        return make_closed_file, (kind, is_text, getattr(obj, "name", ""), str(getattr(obj, "mode", "r")))
    return pickler.refuse(obj, "an open file, whose position belongs to this process. Open it inside the cell.")


def _stream_of(obj: Any) -> str | None:
    """Which standard stream it is, if it is one."""
    both = {name: (getattr(sys, name), getattr(sys, f"__{name}__")) for name in STREAMS}
    return next((name for name, them in both.items() if obj in them or _writes_to(obj, name)), None)


def _writes_to(obj: Any, name: str) -> bool:
    """Whether it is a kernel's stream that has been replaced since."""
    return type(obj).__name__ == "OutStream" and getattr(obj, "name", None) == name


def find_stream(name: str) -> Any:
    return getattr(sys, name)


def make_closed_file(kind: str, text: bool, name: Any, mode: str) -> Any:
    """`kind`: of open()'s classes; empty for another's, of which it is only known that it is closed."""
    # A text around a pipe says no mode. What is closed is known by its class, and opened for no more than that needs.
    given = mode.replace("x", "w").replace("t", "") if kind == "FileIO" else _MODES.get(kind, "r")
    raw: Any = io.FileIO(os.devnull, given)
    raw.name = name
    file: Any = getattr(io, kind or "BufferedReader")(raw) if kind != "FileIO" else raw
    if text:
        file = io.TextIOWrapper(file, encoding="utf-8")
        file.mode = mode
    file.close()
    return file


def reduce_method(obj: MethodType, pickler: Pickler) -> Reduced:
    if (role := method_of(obj)) is not None:
        return find_method, role
    return MethodType, (obj.__func__, obj.__self__)


_MODES = {"BufferedWriter": "w", "BufferedRandom": "r+"}
_BUFFERS = (io.BufferedRandom, io.BufferedWriter, io.BufferedReader, io.FileIO)
_DICT_VIEWS: dict[type, str] = {
    type(getattr(one, name)()): name for one in (_NOTHING, OrderedDict()) for name in ("keys", "values", "items")
}
_KINDS: dict[type, Kind] = {
    **dict.fromkeys(_DICT_VIEWS, Kind(reduce=reduce_dict_view)),
    MappingProxyType: Kind(reduce=reduce_view),
    MethodType: Kind(reduce=reduce_method),
    re.Match: Kind(reduce=reduce_match),
    functools.partial: GENERIC,
}
