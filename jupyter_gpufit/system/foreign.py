"""What another process wrote, read without trust: whatever stands there, the reader gets values or a ValueError.

json itself raises RecursionError for sixty thousand brackets; a number where a text belongs would fail far away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any

_SIMPLE: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float), "bool": (bool,)}


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
    """The fields of a dataclass that the record has, those of a simple type being of it; unknown keys are ignored."""
    if not isinstance(record, Mapping):
        raise ValueError("it is not an object")
    found = {}
    for name, kind in _fields(cls):  # type: ignore[arg-type] # a class is hashable
        if name in record:
            found[name] = value = record[name]
            wanted = _SIMPLE.get(kind)
            if wanted is not None and not _is(value, wanted):
                raise ValueError(f"{name} is not of type {kind}")
    return found


@cache  # asked for each line of a journal
def _fields(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, str(field.type)) for field in fields(cls))


def _is(value: object, wanted: tuple[type, ...]) -> bool:
    return isinstance(value, wanted) and (type(value) is not bool or bool in wanted)
