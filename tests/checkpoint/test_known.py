"""The record of what is proven grows by what a command has shown."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from ..libraries import need
from ..snapshot.known import add, main
from ..snapshot.matrix import of_each


def test_a_version_joins_those_that_share_the_code(tmp_path: Path) -> None:
    record = tmp_path / "proven.json"
    record.write_text("{}")

    assert add("lib.train", "Trainer.fit", "0123", "1.0", record)
    assert not add("lib.train", "Trainer.fit", "0123", "1.1", record)
    assert not add("lib.train", "Trainer.fit", "0123", "1.1", record)
    assert add("lib.train", "Trainer.fit", "4567", "2.0", record)

    assert json.loads(record.read_text()) == {"lib.train": {"Trainer.fit": {"0123": "1.0, 1.1", "4567": "2.0"}}}


def test_of_each_place_the_point_in_the_middle_is_tried() -> None:
    assert of_each(["a", "b", "b", "b", "a", "c", "a"]) == [3, 5, 6]


def test_a_library_without_a_cell_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("mnemosyne", "1.0", tmp_path / "proven.json") == 1

    assert "No cell of tests/snapshot/matrix_cells.py needs mnemosyne: write one." in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.slow
def test_a_version_is_installed_killed_and_noted_down(tmp_path: Path) -> None:
    need("optuna")
    record = tmp_path / "proven.json"
    record.write_text("{}")

    assert main("optuna", version("optuna"), record) == 0

    found = json.loads(record.read_text())
    assert "_optimize_sequential" in found["optuna.study._optimize"]
    assert {one for known in found["optuna.study._optimize"].values() for one in known.values()} == {version("optuna")}
