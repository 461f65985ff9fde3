"""Every example notebook runs, as `make demo` runs the first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels import environment

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
RUN_BY_ANOTHER = ("05_the_other",)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the executed copies are: all of one kernel with one spare, so that torch is imported twice and no more."""
    place = tmp_path_factory.mktemp("examples")
    some = [one for one in NOTEBOOKS if one.stem not in RUN_BY_ANOTHER]
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "run.py", *some],
        env=environment(place, GPUFIT_SPARE_WORKER="1"),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr
    assert list((place / "build" / "demo").glob("*.png"))
    yield place / "build" / "demo"


@pytest.mark.slow(60)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_its_result(notebook: Path, executed: Path) -> None:
    name = notebook.name if notebook.stem not in RUN_BY_ANOTHER else "05_two_notebooks.ipynb"
    cells = json.loads((executed / name).read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert "loss" in str(shown)
