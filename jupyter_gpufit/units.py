"""Bytes, durations and figures as people write and read them; words/units.ts writes them alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

KiB, MiB, GiB, TiB = 1 << 10, 1 << 20, 1 << 30, 1 << 40
_NO_SECONDS = 600  # from here on nobody counts them


def format_bytes(count: float) -> str:
    """Write bytes with one decimal in the largest binary unit that keeps the figure above one."""
    for scale, unit in ((TiB, "TiB"), (GiB, "GiB"), (MiB, "MiB"), (KiB, "KiB")):
        if abs(count) >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{int(count)} B"


def out_of(used: float, total: float) -> str:
    """ "30.4 of 36.0 GiB": the unit once where it is the same."""
    some, unit = format_bytes(used).split(" ")
    whole = format_bytes(total)
    return f"{some} of {whole}" if whole.endswith(f" {unit}") else f"{some} {unit} of {whole}"


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


def device_words(labels: Sequence[str]) -> str:
    """ "GPU 1", "GPU 0 and 1", "cpu:0, cpu:1 and cpu:2" """
    prefix = "GPU " if labels[0][:1].isdigit() else ""
    return prefix + " and ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))


def where_words(device: str) -> str:
    """ "GPU 0 and 1", of "0, 1": the devices that a job's record has"""
    return device_words(device.split(", "))


def format_figure(value: float | None) -> str:
    """Write a number of a loop: four digits, and no power of ten between 1e-4 and a million; None is not finite."""
    if value is None or not math.isfinite(value):
        return "not finite"
    digits, power = f"{value:.3e}".split("e")
    if value and not -5 < int(power) < 6:
        return f"{float(digits):g}e{power}"
    return f"{value:,.0f}" if int(power) > 3 else f"{float(f'{value:.4g}'):.15g}"
