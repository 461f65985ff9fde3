"""Classes of the notebook: made anew on the other side, and what they hold is put into them.

Making one there runs nothing of the notebook's own: what an `__init_subclass__` or a metaclass did when the class was
made travels as what it is, and done again it would come twice, or before the names that it reads. A library's does run:
its registry is the process's own, and should know the class there, too.
"""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import new_class, resolve_bases
from typing import Any, NewType

from cloudpickle.cloudpickle import (
    _get_or_create_tracker_id,
    _lookup_class_or_track,
    _make_skeleton_class,
    _make_skeleton_enum,
    _should_pickle_by_reference,
)

from ...system.objects import module_of
from .. import wire
from ..kind import Kind, Pickler, Reduced
from . import enums
from .generic import MADE_WHEN_IMPORTED, find_in_module, is_own

_ORDERED: OrderedDict[Any, Any] = OrderedDict()
_OF_NOWHERE: dict[type, Any] = {  # classes that no module holds, each with an object of it
    type(one): one for one in (_ORDERED.keys(), _ORDERED.values(), _ORDERED.items())
}
_OF_THE_CLASS_ITSELF = frozenset(  # made by Python for each class, or caches of it
    {"__dict__", "__weakref__", "_abc_impl", "__slotnames__", "__abstractmethods__", "__annotations_cache__"}
)
_CALLED_WHEN_OPENED = ("__setstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__", "__hash__")
_HOOK = "__init_subclass__"


def reduce_class(cls: type, pickler: Pickler) -> Reduced:
    if (ours := wire.reference(cls)) is not None:
        return ours
    if cls.__module__ != "__main__" and not _should_pickle_by_reference(cls):
        name = pickler.name_in_module(cls, cls.__module__)
        if name is not None:  # as the enums of compiled modules, which are not found under their own names
            return find_in_module, (cls.__module__, name)
        if cls in _OF_NOWHERE:
            return type, (_OF_NOWHERE[cls],)
        if not cls.__flags__ & MADE_WHEN_IMPORTED and (place := _place_elsewhere(cls)) is not None:
            return find_in_module, place  # as what {}.keys() is of
        if "<locals>" not in cls.__qualname__ and not _is_outlived(cls) and (home := pickler.home_of(cls)) is not None:
            return find_in_module, (home, cls.__name__)  # as safetensors' safe_open, of Rust, which says "builtins"
    pickler.want_class(cls)
    found = pickler.reduce_as_cloudpickle_does(cls)
    if found is NotImplemented or found[0] not in (_make_skeleton_class, _make_skeleton_enum):
        return found  # by its name
    if found[0] is _make_skeleton_enum:
        own = {name: value for name, value in vars(cls).items() if name not in _OF_THE_CLASS_ITSELF}
        args = (*enums.arguments(cls), _get_or_create_tracker_id(cls))
        return make_enum, args, enums.own_state(cls, own), None, None, fill_enum
    _, (metaclass, name, bases, body, tracker, _), (own, _), *_ = found
    if "__slots__" in vars(cls):
        # cloudpickle makes the class first and names its slots afterwards, when it is too late for it to have any.
        # With the bases that it came to, too: a `NamedTuple` makes the slots of those that name it as theirs.
        bases = cls.__bases__
        body = body | {key: vars(cls)[key] for key in ("__slots__", "__orig_bases__") if key in vars(cls)}
    return make_class, (metaclass, name, bases, body, tracker), own, None, None, fill_made


def make_class(metaclass: type, name: str, bases: tuple[Any, ...], body: Mapping[str, Any], tracker: str) -> type:
    """One that has next to nothing yet: its methods may name what arrives later."""
    body = {sys.intern(key): value for key, value in body.items()}
    actual = resolve_bases(bases)
    with _hooks_left_out(actual):
        maker: Any = _librarys(metaclass)
        if maker is metaclass:
            made = new_class(name, bases, {"metaclass": metaclass}, lambda space: space.update(body))
        else:
            named = body if actual is bases else body | {"__orig_bases__": bases}
            space = {**maker.__prepare__(name, actual), **named}
            made = maker.__new__(metaclass, name, actual, space)
            maker.__init__(made, name, actual, space)
    if getattr(made, "__abstractmethods__", None):
        made.__abstractmethods__ = frozenset()  # type: ignore[attr-defined] # until its methods are there: what it
        # has may lead to an object of it, which Python would not make
    tracked: type = _lookup_class_or_track(tracker, made)
    return tracked


def make_enum(
    metaclass: type, name: str, bases: tuple[Any, ...], members: Any, options: Mapping[str, Any], tracker: str
) -> type:
    with _hooks_left_out(bases):
        made = enums.make(metaclass, name, bases, members, options)
    tracked: type = _lookup_class_or_track(tracker, made)
    return tracked


def fill_enum(cls: Any, state: dict[str, Any]) -> None:
    """Its members are whole by now: they came with the state."""
    for name in {*vars(cls)} - {*state, *cls.__members__} - _OF_THE_CLASS_ITSELF - enums.OF_ENUM:
        type.__delattr__(cls, name)
    fill_made(cls, {name: value for name, value in state.items() if name != enums.MEMBERS})


def _librarys(metaclass: type) -> type:
    """The first of it that is not the notebook's own."""
    return next(cls for cls in metaclass.__mro__ if not is_own(cls))


@contextmanager
def _hooks_left_out(bases: tuple[type, ...]) -> Iterator[None]:
    """For a moment, the notebook's own of these hand on to the first library's."""
    kept = {base: vars(base).get(_HOOK) for base in bases if is_own(base)}
    for base in kept:
        _put(base, _HOOK, classmethod(_as_a_librarys))
    try:
        yield
    finally:
        for base, hook in kept.items():
            if hook is None:
                _maker_of(base).__delattr__(base, _HOOK)
            else:
                _put(base, _HOOK, hook)


def _as_a_librarys(cls: type) -> None:
    hook = next(vars(base)[_HOOK] for base in cls.__mro__ if not is_own(base) and _HOOK in vars(base))
    hook.__get__(None, cls)()


def _maker_of(cls: type) -> Any:
    return _librarys(type(cls))


def _put(cls: type, name: str, value: Any) -> None:
    _maker_of(cls).__setattr__(cls, name, value)


def fill_made(cls: type, state: dict[str, Any]) -> None:
    for name, value in state.items():
        if name == "_abc_impl":
            for registered in value:
                cls.register(registered)  # type: ignore[attr-defined]
        else:
            _set_in_class(cls, name, value)
    if "__firstlineno__" in state:  # forgotten when __module__ is set
        _set_in_class(cls, "__firstlineno__", state["__firstlineno__"])


class _Bare(type):
    """What a class is for a moment, where its own metaclass refuses an attribute."""


def _is_guarded(cls: type, name: str) -> bool:
    """Whether what a class says under a name is its metaclass's property, and can only be given when it is made."""
    bases: Any = type(cls).__mro__
    found = next((vars(base)[name] for base in bases[: bases.index(type)] if name in vars(base)), None)
    return hasattr(type(found), "__set__")


def _set_in_class(cls: type, name: str, value: Any) -> None:
    if not _is_guarded(cls, name):
        _put(cls, name, value)
        return
    own = type(cls)
    type.__setattr__(cls, "__class__", _Bare)
    try:
        type.__setattr__(cls, name, value)
    finally:
        type.__setattr__(cls, "__class__", own)


def _is_outlived(cls: type) -> bool:
    """Whether its module was run once more, and made another one in its place: whoever imports it has that one."""
    home: Any = sys.modules.get(cls.__module__)
    for name in cls.__qualname__.split("."):
        home = getattr(home, name, None)
    return isinstance(home, type) and home is not cls and home.__module__ == cls.__module__


@functools.cache
def _place_elsewhere(cls: type) -> tuple[str, str] | None:
    """Where the standard library has a class that is not found under its own name."""
    for module in sorted(sys.stdlib_module_names & sys.modules.keys()):
        for name, value in list(vars(sys.modules[module]).items()):
            if value is cls:
                return module, name
    return None


def class_state(cls: type) -> dict[str, Any] | None:
    if cls.__module__ != "__main__":
        return None
    return {name: value for name, value in vars(cls).items() if name not in _OF_THE_CLASS_ITSELF}


def fill_class(cls: type, state: dict[str, Any]) -> None:
    for name in class_state(cls) or {}:
        if name not in state:
            type.__delattr__(cls, name)
    for name, value in state.items():
        if vars(cls).get(name, cls) is not value:
            _set_in_class(cls, name, value)


def runs_when_opened(cls: type) -> bool:
    """Whether opening an object of this class calls a method that the notebook wrote."""
    own = (vars(base) for base in cls.__mro__ if module_of(base) == "__main__")
    return any(body.get(name) is not None for body in own for name in _CALLED_WHEN_OPENED)


def reduce_new_type(made: NewType, pickler: Pickler) -> Reduced:
    if made.__module__ != "__main__":
        return NotImplemented
    return NewType, (made.__name__, made.__supertype__)


CLASS = Kind(reduce=reduce_class, state=class_state, fill=fill_class)
_NEW_TYPE = Kind(reduce=reduce_new_type)


def find(cls: type) -> Kind | None:
    if cls is NewType:
        return _NEW_TYPE
    return CLASS if issubclass(cls, type) else None
