"""Cells as people write them are killed and go on; see matrix.py. A few points here, all of them under `make soak`."""

from __future__ import annotations

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.libraries import need

from .matrix import HEAD, Matrix, Row
from .matrix_cells import CELLS
from .training import Trainings

RESULTS = Path(__file__).parents[2] / "bench" / "results" / "soak.json"
QUICK = [name for name, cell in CELLS.items() if not cell.slow_to_start]
SOAKED = ("a pool", "files", "graphs", "rl and gan")  # what is special in them has tests of its own


@pytest.fixture
def matrix(trainings: Trainings, tmp_path: Path) -> Matrix:
    return Matrix(trainings, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in QUICK if name not in SOAKED])
def test_it_ends_as_if_nothing_had_happened(name: str, matrix: Matrix) -> None:
    row = matrix.row(name, 2)

    assert not row.differences
    assert row.tried + row.deferred == 2
    assert row.tried and (CELLS[name].puts_off or not row.deferred)


@pytest.mark.slow(9)
@pytest.mark.parametrize("name", ["functions", "nanogpt"])
def test_it_is_killed_again_and_again(name: str, matrix: Matrix) -> None:
    assert matrix.chain(name, [6 + number % 5 for number in range(40)]) > 1


@pytest.mark.slow(16)
@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("hf trainer", 2),
        pytest.param("lightning", 2, marks=pytest.mark.soak),  # test_own_resume.py leaves it in every run
        ("skorch", 2),
        ("stable-baselines3", 1),
        ("optuna", 2),
    ],
    ids=["transformers", "lightning", "skorch", "stable_baselines3", "optuna"],
)
def test_the_loop_of_a_library_is_left_in_its_middle(name: str, points: int, matrix: Matrix) -> None:
    need(*CELLS[name].needs)

    row = matrix.row(name, points)

    assert not row.differences
    assert row.tried and row.tried + row.deferred == points  # a library's other loops are among the points


@pytest.mark.soak
def test_every_point_of_every_cell(matrix: Matrix, capsys: pytest.CaptureFixture[str]) -> None:
    need(*(library for cell in CELLS.values() for library in cell.needs))
    wanted = int(os.environ.get("SOAK_POINTS") or 0) or None
    rows: list[Row] = []
    chains: dict[str, int] = {}
    for name, cell in CELLS.items():
        rows.append(matrix.row(name, min(12, wanted or 12) if cell.slow_to_start else wanted))
        with capsys.disabled():
            print(*([f"\n{HEAD}"] if len(rows) == 1 else []), rows[-1], sep="\n", flush=True)  # noqa: T201
        _write(rows, chains)
    for name in QUICK:
        chains[name] = matrix.chain(name, [3 + number % 7 for number in range(200)])
        with capsys.disabled():
            print(f"{name}: killed {chains[name]} times in one run", flush=True)  # noqa: T201
        _write(rows, chains)

    assert not [row for row in rows if row.differences]


def _write(rows: list[Row], chains: dict[str, int]) -> None:
    libraries = ("torch", "numpy", "tqdm", "transformers", "accelerate", "lightning")
    found = {
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"system": f"{platform.system()} {platform.release()}", "cores": os.cpu_count()},
        "python": platform.python_version(),
        "versions": {name: version(name) for name in libraries},
        "results": {
            "rows": [vars(row) | {"stood_in": sorted(row.stood_in)} for row in rows],
            "kills in one run": chains,
        },
    }
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
