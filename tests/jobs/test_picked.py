"""Which of a job's numbers are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.errors import StorageError
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.picked import LONGEST, MOST, pick, picked, shown


@pytest.mark.parametrize(
    ("names", "drawn"),
    [
        ((), ()),
        (("lr", "acc"), ("lr",)),
        (("acc", "val_loss", "loss"), ("loss",)),
        (("acc", "trainLoss", "val_loss"), ("trainLoss",)),
    ],
)
def test_at_first_the_loss(names: tuple[str, ...], drawn: tuple[str, ...]) -> None:
    assert shown(names, None) == drawn


def test_then_what_was_picked_as_far_as_it_is_there(tmp_path: Path) -> None:
    paths = JobPaths(tmp_path)
    assert picked(paths) is None
    pick(paths, ["lr", "gone", "lr", "acc"])
    assert picked(paths) == ("lr", "gone", "acc")
    assert shown(("acc", "loss", "lr"), picked(paths)) == ("acc", "lr")
    pick(paths, [])
    assert shown(("acc", "loss", "lr"), picked(paths)) == ()


def test_it_stays_small(tmp_path: Path) -> None:
    pick(JobPaths(tmp_path), ["\ud800" + "x" * 1000, *(f"n{i}" for i in range(100))])
    names = picked(JobPaths(tmp_path))
    assert names is not None and len(names) == MOST and max(map(len, names)) == LONGEST


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1, "names": "loss"}', '{"format": 2, "names": ["x"]}'])
def test_a_file_that_says_nothing_is_as_none(tmp_path: Path, text: str) -> None:
    JobPaths(tmp_path).picked.write_text(text)
    assert picked(JobPaths(tmp_path)) is None


def test_says_where_it_cannot_be_kept(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        pick(JobPaths(tmp_path / "nowhere"), ["loss"])
