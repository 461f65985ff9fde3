"""What a checkpoint holds can be looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jupyter_gpufit.actions import checkpoints
from jupyter_gpufit.checkpoint.manifest import STATE
from tests.checkpoint.snapshots import about, training, writing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("job") / "checkpoints"
    with writing(directory) as writer:
        for step in (1204, 2408):
            writer.save(training(step), about(step, automatic=step > 2000)).result()
    return directory


def test_as_a_text(directory: Path) -> None:
    text = checkpoints.as_text(directory, now=1e9 + 2408 + 65)
    assert "000001-000002  2,408  1 min 5 s ago" in text and "automatic" in text and "1,204" in text
    assert "line 2408 of the cell" in text and "state.safetensors" in text and "graph.pkl" in text
    assert "model.8.weight" in text and "and 3 smaller ones" in text and "scale" not in text
    assert "scale" in checkpoints.as_text(directory, every=True)


def test_as_json(directory: Path) -> None:
    found = json.loads(json.dumps(checkpoints.as_json(directory)))
    newest, older = found["checkpoints"]
    assert (newest["step"], older["step"], newest["tensors"]) == (2408, 1204, 13)
    assert newest["bytes"] == sum(newest["files"].values()) and found["broken"] == []
    assert newest["largest"][0] == {
        "name": "model.0.weight",
        "dtype": "F32",
        "shape": [2500],
        "nbytes": 10000,
        "file": STATE,
    }


def test_all_bytes_are_read_when_asked(directory: Path) -> None:
    assert "All bytes were read" in checkpoints.as_text(directory, check=True)
    path = directory / "000001-000002" / STATE
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert len(checkpoints.as_json(directory)["checkpoints"]) == 2
    checked = checkpoints.as_json(directory, check=True)
    assert len(checked["checkpoints"]) == 1 and "was changed after it was written" in checked["broken"][0]["why"]


def test_without_any(tmp_path: Path) -> None:
    assert checkpoints.as_text(tmp_path / "none") == "There is no checkpoint that can be used."
