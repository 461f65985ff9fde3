"""The record of what is proven grows by what a command has shown."""

from __future__ import annotations

import json
from pathlib import Path

from ..snapshot.known import add
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
