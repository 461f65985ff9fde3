"""A script as a program to estimate: it will find itself as `python script.py` would run it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ...errors import BadOption
from .ask import EstimatedProgram
from .session import MOST_COUNTS, EstimateWish
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
    least, most = max(gpus[0], 2), gpus[1]
    if most > 1 and (sweep or max_batch):
        raise BadOption(
            "--sweep and --max-batch ask about one device, and do not go with --gpus. Leave out one of them."
        )
    if (counts := most - least + 1) > MOST_COUNTS:
        raise BadOption(
            f"--gpus {gpus[0]}-{most} would take two trial runs for each of {counts} numbers of devices. Ask for"
            f" {MOST_COUNTS} at once: --gpus {least}-{least + MOST_COUNTS - 1}."
        )
    of = parse_sweep(sweep) if sweep else None
    return EstimateWish(on=on, steps=steps, sweep=of, max_batch=max_batch or "", gpus=gpus)
