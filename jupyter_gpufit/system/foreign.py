"""What another process wrote, read without trust: whatever stands there, the reader gets values or a ValueError.

json itself raises RecursionError for sixty thousand brackets; a number where a text belongs would fail far away.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
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
    found = {field.name: record[field.name] for field in fields(cls) if field.name in record}
    for field in fields(cls):
        wanted = _SIMPLE.get(str(field.type))
        if wanted is not None and field.name in found and not _is(found[field.name], wanted):
            raise ValueError(f"{field.name} is not of type {field.type}")
    return found


def _is(value: object, wanted: tuple[type, ...]) -> bool:
    return isinstance(value, wanted) and (type(value) is not bool or bool in wanted)
