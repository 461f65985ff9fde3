"""What another process wrote, read without trust: whatever stands there, the reader gets values or a ValueError.

json itself raises RecursionError for sixty thousand brackets; a number where a text belongs would fail far away.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

_LARGEST = 1 << 64  # of whole numbers; more would fail where a float is made of one

Check: TypeAlias = Callable[[Any], bool]


def parsed(text: str | bytes) -> Any:
    """What the JSON says."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def parsed_record(text: str | bytes) -> dict[str, Any]:
    """The same of an object."""
    found = parsed(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


def known(cls: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a dataclass that the record has, each of its type, as JSON has it; unknown keys are ignored.

    One that is a dataclass itself is a record still. Of a Literal only the type is looked at: later versions say more.
    """
    if not isinstance(record, Mapping):
        raise ValueError("it is not an object")
    found = {}
    for name, sure, is_right in _fields(cls):  # type: ignore[arg-type] # a class is hashable
        if name in record:
            found[name] = value = record[name]
            if type(value) not in sure and not is_right(value):
                raise ValueError(f"{name} is not of its type")
    return found


@cache  # asked for each line of a journal
def _fields(cls: type[Any]) -> tuple[tuple[str, frozenset[type], Check], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, _sure(hints[field.name]), _check(hints[field.name])) for field in fields(cls))


def _sure(hint: Any) -> frozenset[type]:
    """Types whose values are right without a look: for most, and a panel asks thousands of times a second."""
    kind = get_origin(hint) or hint
    if kind in (Union, UnionType):
        return frozenset().union(*map(_sure, get_args(hint)))
    return frozenset({kind} & {str, bool, float, NoneType})


def _check(hint: Any) -> Check:
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return _any_of([_check(one) for one in inner])
    if kind is Literal:
        kinds = {type(one) for one in inner}
        return lambda value: type(value) in kinds
    if kind is tuple and Ellipsis not in inner:
        checks = [_check(one) for one in inner]
        return lambda value: _is_list(value) and len(value) == len(checks) and all(map(_call, checks, value))
    if kind in (tuple, list, Sequence):
        return _all_are(_is_list, _check(inner[0]), iter)
    if kind in (dict, Mapping):
        return _all_are(_is_record, _check(inner[1]), dict.values)
    if is_dataclass(kind):
        return _is_record
    return _PLAIN.get(kind, _is_anything)


def _any_of(checks: Sequence[Check]) -> Check:
    return lambda value: any(check(value) for check in checks)


def _all_are(is_whole: Check, check: Check, parts: Callable[[Any], Iterable[Any]]) -> Check:
    if check is _is_anything:
        return is_whole
    return lambda value: is_whole(value) and all(map(check, parts(value)))


def _call(check: Check, value: Any) -> bool:
    return check(value)


def _is_anything(value: Any) -> bool:
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)


def _is_record(value: Any) -> bool:
    return isinstance(value, dict)


def _is_whole(value: Any) -> bool:
    return type(value) is int and -_LARGEST < value < _LARGEST


_PLAIN: dict[Any, Check] = {
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    int: _is_whole,
    float: lambda value: isinstance(value, float) or _is_whole(value),
    NoneType: lambda value: value is None,
}
