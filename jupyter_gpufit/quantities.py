"""Amounts of memory and durations as people write them."""

from __future__ import annotations

import re

from .errors import BadQuantity

_SCALE = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _SCALE[f"{_letter}ib"] = _SCALE[_letter] = 1024**_power
    _SCALE[f"{_letter}b"] = 1000**_power
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h|d)\s*")


def parse_seconds(text: object) -> float:
    """Read "90s", "30min", "1.5h" or "2d"; more than nothing."""
    match = _TIME.fullmatch(text) if isinstance(text, str) else None
    if match is None or not float(match[1]):
        raise BadQuantity(str(text), "a duration such as 90s, 30min, 2h or 1d")
    return float(match[1]) * _SECONDS[match[2]]


def parse_bytes(text: str) -> int:
    """Read "12GiB", "12 GB", "12g" or "12884901888"; a bare letter is binary, as in most tools."""
    match = _BYTES.fullmatch(text)
    if match is None or match[2].lower() not in _SCALE:
        raise BadQuantity(text, "an amount of memory such as 12GiB")
    return int(float(match[1]) * _SCALE[match[2].lower()])
