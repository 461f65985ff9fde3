"""The environment of a Python process of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..units import MiB


def reproducible(env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which a resumed worker orders its sets, and multiplies its matrices, as the first one did."""
    seed = env.get("PYTHONHASHSEED", "")
    return {
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # without it cuBLAS may choose another algorithm each time
        **env,
        "PYTHONHASHSEED": seed if seed.isascii() and seed.isdigit() else "0",
    }


def with_our_package(env: Mapping[str, str]) -> dict[str, str]:
    """Let the worker import this very package, also where the kernel found it through sys.path alone."""
    ours = str(Path(__file__).absolute().parents[2])
    given = env.get("PYTHONPATH")
    return {**env, "PYTHONPATH": os.pathsep.join([given, ours] if given else [ours])}


_PAST_THE_CACHES = "glibc.cpu.x86_non_temporal_threshold"


def with_quick_copies(env: Mapping[str, str]) -> dict[str, str]:
    """Let large copies go past the processor's caches, which makes a checkpoint's pause a quarter shorter.

    glibc does so by itself only for copies larger than a share of the last cache: on a server 100 MiB. It reads this
    as the process begins; the cell never sees it. Other processors than x86 do not know the name.
    """
    given = env.get("GLIBC_TUNABLES", "")
    if _PAST_THE_CACHES in given:
        return dict(env)
    return {**env, "GLIBC_TUNABLES": ":".join(filter(None, [given, f"{_PAST_THE_CACHES}={4 * MiB:#x}"]))}
