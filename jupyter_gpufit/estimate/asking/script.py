"""A script as a program to estimate: it will find itself as `python script.py` would run it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import BadOption
from .ask import EstimatedProgram
from .session import EstimateWish
from .sweep import parse_sweep


def program_of(script: str, arguments: Sequence[str]) -> EstimatedProgram:
    """Read the script; a mistake in its name is the user's."""
    if not script:
        raise BadOption("estimate needs a script: gpufit estimate train.py")
    try:
        source = Path(script).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{script} cannot be read ({getattr(error, 'strerror', None) or error}).") from error
    folder = os.path.dirname(os.path.abspath(script))
    # sys.path[0] is where `gpufit` lies: python would have the script's folder there.
    return EstimatedProgram(
        source=source, cwd=os.getcwd(), path=[folder, *sys.path[1:]], script=script, arguments=[*arguments]
    )


def wish_of(
    on: str, steps: int, sweep: str | None, max_batch: str | None, gpus: tuple[int, int] = (1, 1)
) -> EstimateWish:
    """What the options ask for."""
    of = parse_sweep(sweep) if sweep else None
    return EstimateWish(on=on, steps=steps, sweep=of, max_batch=max_batch or "", gpus=gpus)
