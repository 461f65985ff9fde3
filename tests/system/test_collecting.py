"""Python's search for garbage, kept away from what stays."""

from __future__ import annotations

import gc

from jupyter_gpufit.system.collecting import for_good


def test_what_somebody_has_frozen_stays_frozen() -> None:
    gc.freeze()

    with for_good():
        made = [[] for _ in range(10)]  # type: ignore[var-annotated]

    assert gc.isenabled() and gc.get_freeze_count()
    assert len(made) == 10
