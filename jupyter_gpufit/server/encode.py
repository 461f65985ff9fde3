"""Values as the JSON that a browser reads."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(value: Any) -> str:
    """A value of `wire` as JSON; nan and infinity, for which JSON has no words, as null."""
    # The encoder asks for the fields of what it does not know; `asdict` would copy every leaf before.
    try:
        # What `wire` puts together has no circles, and to look for them takes a third of the time.
        return json.dumps(value, default=vars, allow_nan=False, check_circular=False, separators=(",", ":"))
    except ValueError:  # a display of the user's own may hold anything
        record = json.loads(json.dumps(value, default=vars))
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
