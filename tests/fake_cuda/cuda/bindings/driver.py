"""Stands in for cuda.bindings': a driver that is new enough, or as old as STAND_IN_VERSION says."""

from __future__ import annotations

import os


def cuDriverGetVersion() -> tuple[int, int]:
    return 0, int(os.environ.get("STAND_IN_VERSION", "13000"))


def cuInit(flags: int) -> tuple[int]:
    return (flags,)
