"""Real trainers, as if their texts were not at hand: killed, they go on by their library's own resume to the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.libraries import need

from .matrix import Matrix, differences, spread
from .matrix_cells import CELLS
from .training import Trainings

UNKNOWN = (
    "import linecache, importlib\n"
    "for name in ('transformers.trainer', 'lightning.pytorch.trainer.trainer'):\n"
    "    try: module = importlib.import_module(name)\n"
    "    except ImportError: continue\n"
    "    linecache.cache[module.__file__] = 0, None, [], module.__file__\n"
    "del linecache, importlib, name, module\n"
)


@pytest.mark.slow(45)
@pytest.mark.parametrize(
    ("name", "steps", "exact"),
    [
        pytest.param("hf trainer", 6, {"steps", "generators"}, marks=pytest.mark.soak),
        ("lightning", 9, {"steps"}),
    ],
    ids=["transformers", "lightning"],
)
def test_it_goes_on_to_its_end(name: str, steps: int, exact: set[str], trainings: Trainings, tmp_path: Path) -> None:
    need(*CELLS[name].needs)
    cell, matrix = replace(CELLS[name], before=UNKNOWN), Matrix(trainings, tmp_path)
    whole = matrix._run(cell)
    assert not differences(matrix._run(cell, plain=True), whole)
    assert whole.points <= steps

    for point in spread(whole.points, 2):
        directory = matrix._own_directory()
        died = matrix._run(cell, directory, at=point, more=1, save=str(directory / "saved"))
        assert not died.error, died.error
        ended = matrix._run(cell, directory, of=str(directory / "saved"))
        assert {one: ended.digests[one] for one in exact} == {one: whole.digests[one] for one in exact}
