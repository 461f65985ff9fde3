"""Estimates against what jobs really take: each job in a fresh process, in both modes of the allocator."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.gpu.jobs import JOBS, MEASURE

WORST = 15.0  # percent below the truth, beyond which a claim would have been too small


def measured(name: str, options: str) -> dict[str, int]:
    """Run the job for real; peaks as torch and the driver count them."""
    return _figures(MEASURE, name, options)


def estimated(name: str, options: str) -> dict[str, int]:
    """Estimate it in a process that never touches CUDA."""
    return _figures("import sys; from tests.gpu.jobs import estimate; estimate(sys.stdin.read())", name, options)


def _figures(code: str, name: str, options: str) -> dict[str, int]:
    ran = subprocess.run(
        [sys.executable, "-c", code],
        input=JOBS[name],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"PYTORCH_ALLOC_CONF": options},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, int] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("options", ["expandable_segments:False", "expandable_segments:True"])
@pytest.mark.parametrize("name", JOBS)
def test_an_estimate_is_close_to_the_truth_and_enough(name: str, options: str) -> None:
    told, truth = estimated(name, options), measured(name, options)

    assert told["high"] >= truth["reserved"] + truth["context"] or not truth["context"]
    error = 100 * (told["peak_reserved"] - truth["reserved"]) / truth["reserved"]
    assert error > -WORST, f"{error:+.1f} %: estimated {told}, measured {truth}"
