"""Archives that an earlier cell opened for reading."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from jupyter_gpufit.errors import CannotTravel

from .crossing import cross_here, notebook

# The cell's own files are closed by the end of its process, which here is this one: they are collected while we look.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
BEFORE = """
import zipfile
import numpy as np
np.savez("data.npz", images=np.arange(6).reshape(2, 3), focal=1.5)
data = np.load("data.npz")
first = data["images"][0]
archive = zipfile.ZipFile("data.npz")
"""
CELL = """
total = data["images"].sum() + data["focal"] + data.f.focal
names = archive.namelist(), archive.filename, data.files
"""


def test_are_opened_again_and_stay_open_in_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = notebook(BEFORE)
    data, archive = namespace["data"], namespace["archive"]

    returned = cross_here(namespace, CELL).returned

    assert not returned.left_behind and namespace["total"] == 18
    assert namespace["names"] == (["images.npy", "focal.npy"], "data.npz", ["images", "focal"])
    assert namespace["data"] is data and namespace["archive"] is archive
    assert data["focal"] == 1.5 and archive.read("focal.npy")
    for one in (data, archive):
        one.close()
    gc.collect()


def test_one_whose_file_is_gone_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace = notebook(BEFORE)
    (tmp_path / "data.npz").unlink()

    with pytest.raises(CannotTravel, match=r"data.*dict\(np.load"):
        cross_here(namespace, CELL)
    namespace["data"].close()
    namespace["archive"].close()
    gc.collect()
