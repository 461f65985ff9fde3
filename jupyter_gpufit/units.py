"""Bytes and durations as people write and read them."""

from __future__ import annotations

import re

from .errors import BadQuantity

KiB, MiB, GiB, TiB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
_SCALE = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    _SCALE[f"{_letter}ib"] = _SCALE[_letter] = 1024**_power
    _SCALE[f"{_letter}b"] = 1000**_power
_NO_SECONDS = 600  # from here on nobody counts them
_BYTES = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(text: str) -> int:
    """Read "12GiB", "12 GB", "12g" or "12884901888"; a bare letter is binary, as in most tools."""
    match = _BYTES.fullmatch(text)
    if match is None or match[2].lower() not in _SCALE:
        raise BadQuantity(text, "an amount of memory such as 12GiB")
    return int(float(match[1]) * _SCALE[match[2].lower()])


def format_bytes(count: float) -> str:
    """Write bytes with one decimal in the largest binary unit that keeps the figure above one."""
    for scale, unit in ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if abs(count) >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{int(count)} B"


def format_duration(seconds: float) -> str:
    """Write a duration as the two largest units that matter: "1 h 12 min", "21 min", "3 min 5 s", "0.4 s"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, smaller_size, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = 0 if smaller == "s" and whole >= _NO_SECONDS else whole % size // smaller_size
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
