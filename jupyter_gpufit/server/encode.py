"""Values as the JSON that a browser reads."""

from __future__ import annotations

import json
import math
from typing import Any

from .wire import record_of


def to_json(value: Any) -> str:
    """A value of `wire` as JSON; nan and infinity, for which JSON has no words, as null."""
    record = record_of(value)
    try:
        return json.dumps(record, allow_nan=False, separators=(",", ":"))
    except ValueError:  # a display of the user's own may hold anything
        return json.dumps(_finite(record), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list():
            return [_finite(one) for one in value]
    return value
