"""Every example notebook runs, as `make demo` runs the first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kernels import environment

ROOT = Path(__file__).parents[1]


@pytest.mark.slow(14)
@pytest.mark.parametrize("notebook", sorted((ROOT / "examples").glob("*.ipynb")), ids=lambda path: path.stem)
def test_an_example_runs_and_shows_its_result(notebook: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "run.py", notebook],
        env=environment(tmp_path, GPUFIT_SPARE_WORKER="1"),  # torch is imported once for all of its workers
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert ran.returncode == 0, ran.stderr
    assert "loss" in ran.stdout and "picture" in ran.stdout
    assert list((tmp_path / "build" / "demo").glob("*.png"))
