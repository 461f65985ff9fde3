"""Every example notebook runs, as `make demo` runs the first."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kernels import environment
from tests.libraries import need

ROOT = Path(__file__).parents[1]
RUN_BY_ANOTHER = ("05_the_other",)
NOTEBOOKS = [one for one in sorted((ROOT / "examples").glob("*.ipynb")) if one.stem not in RUN_BY_ANOTHER]
LIBRARIES = {"07_trainer": ("transformers", "accelerate"), "08_lightning": ("lightning",)}


def can_run(notebook: Path) -> bool:
    return all(find_spec(library) for library in LIBRARIES.get(notebook.stem, ()))


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the executed copies are: all of one kernel with one spare, so that torch is imported twice and no more."""
    place = tmp_path_factory.mktemp("examples")
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "run.py", *filter(can_run, NOTEBOOKS)],
        env=environment(place, GPUFIT_SPARE_WORKER="1"),
        cwd=place,
        capture_output=True,
        text=True,
        timeout=1500,
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr
    yield place / "build" / "demo"


@pytest.mark.slow(60)
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_its_result(notebook: Path, executed: Path) -> None:
    need(*LIBRARIES.get(notebook.stem, ()))
    cells = json.loads((executed / notebook.name).read_text())["cells"]
    shown = [output for cell in cells for output in cell.get("outputs", [])]
    assert "loss" in str(shown)
    draws = any("plt." in "".join(cell["source"]) for cell in cells)
    assert bool(list(executed.glob(f"{notebook.stem}-*.png"))) == draws
