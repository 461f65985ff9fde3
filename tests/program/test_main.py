"""What `python -m jupyter_gpufit.program` shows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gpufit.program.__main__ import shown

TRAIN = "def train(model, loader):\n    for x in loader:\n        model(x)\n"
CELL = "for epoch in range(3):\n    train(model, loader)\n"


def test_a_cell_and_the_functions_of_earlier_cells_in_both_forms() -> None:
    forms = list(shown([TRAIN, CELL]))

    assert [form.splitlines()[0] for form in forms] == [
        "# train(), as it runs",
        "# train(), entered again where it was left",
        "# the cell, as it runs",
        "# the cell, entered again where it was left",
    ]
    assert "for x in _gf_f.loop(0):" in forms[0] and "_gf_f.saved()" in forms[1]
    assert "_gf_f.fn(1, train)(model, loader)" in forms[2] and "_gf_f.rcall(1)" in forms[3]
    for form in forms:
        ast.parse(form)


@pytest.mark.slow
def test_the_program_reads_files_and_refuses_what_is_no_python(tmp_path: Path) -> None:
    (tmp_path / "cell.py").write_text(CELL)
    (tmp_path / "broken.py").write_text("for x in")

    good, bad, none = (_run(*files) for files in ([tmp_path / "cell.py"], [tmp_path / "broken.py"], []))

    assert good.returncode == 0 and "range(3)" in good.stdout
    assert bad.returncode == 1 and "invalid syntax" in bad.stderr
    assert none.returncode == 1 and "usage" in none.stderr


def _run(*files: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "jupyter_gpufit.program", *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True)
