"""Enums of the notebook: with all names of a member, what is mixed into it, and what its own methods have given it.

Enum makes the class anew, of members that are what they were: the notebook's `__new__` and `__init__` do not run.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

from ..kind import Kind, Pickler, Reduced
from .generic import MADE_WHEN_IMPORTED, is_own, reduce_generic

OF_ENUM = frozenset({"_member_map_", "_member_names_", "_value2member_map_"})  # made of the members
_OF_EACH = frozenset({"_name_", "_value_", "_sort_order_", "__objclass__"})  # the same of a member
_Content = tuple[Any, ...]  # of what a member is beside its value: a number, a text

MEMBERS = "_member_map_"


def arguments(cls: Any) -> tuple[Any, ...]:
    """For `make_enum`, but for the tracker."""
    members = {name: (_content(one), one._value_) for name, one in cls.__members__.items()}
    options = {"boundary": cls._boundary_} if getattr(cls, "_boundary_", None) is not None else {}
    return type(cls), cls.__name__, cls.__bases__, members, options


def make(
    metaclass: Any, name: str, bases: tuple[Any, ...], members: Mapping[str, Any], options: Mapping[str, Any]
) -> Any:
    space = metaclass.__prepare__(name, bases)
    space["__new__"], space["__init__"] = _as_it_was, _nothing_more
    for member, (content, value) in members.items():
        space[member] = content, value
    return metaclass.__new__(metaclass, name, bases, space, **options)


def own_state(cls: Any, state: dict[str, Any]) -> dict[str, Any]:
    """Without what Enum makes of the members; these have a state of their own."""
    own = {name: value for name, value in state.items() if name not in OF_ENUM and name not in cls.__members__}
    return own | {MEMBERS: dict(cls.__members__)}


def _content(member: Any) -> _Content:
    base = _built_in(type(member))
    if base is object:
        return ()
    found = base.__getnewargs__(member) if hasattr(base, "__getnewargs__") else base.__reduce__(member)[1]
    return tuple(found)


def _built_in(cls: type) -> Any:
    return next(base for base in cls.__mro__ if not base.__flags__ & MADE_WHEN_IMPORTED)


def _as_it_was(cls: Any, content: _Content, value: Any) -> Any:
    made = _built_in(cls).__new__(cls, *content)
    made._value_ = value
    return made


def _nothing_more(self: Any, *args: Any) -> None: ...


def reduce_member(member: Enum, pickler: Pickler) -> Reduced:
    """By its name: a value need not be equal to itself over there, as a function is not."""
    if _is_one(member):
        return find_member, (type(member), member._name_), member_state(member), None, None, fill_member
    return reduce_generic(member, pickler)


def find_member(cls: type[Enum], name: str) -> Enum:
    return cls.__members__[name]


def member_state(member: Enum) -> dict[str, Any] | None:
    """What it has been given beside."""
    if not _is_one(member):
        return None
    return {name: value for name, value in vars(member).items() if name not in _OF_EACH}


def fill_member(member: Enum, state: dict[str, Any]) -> None:
    for name in member_state(member) or {}:
        if name not in state:
            del vars(member)[name]
    vars(member).update(state)


def _is_one(member: Enum) -> bool:
    """Whether it is a member of an enum of the notebook's, and not several flags at once."""
    cls = type(member)
    return is_own(cls) and cls.__members__.get(member._name_ or "") is member


_MEMBER = Kind(reduce=reduce_member, state=member_state, fill=fill_member)


def find(cls: type) -> Kind | None:
    return _MEMBER if issubclass(cls, Enum) else None
