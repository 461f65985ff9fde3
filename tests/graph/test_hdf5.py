"""Files of h5py that are found again, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_gpufit.errors import CannotTravel
from jupyter_gpufit.graph import ship

from .crossing import cross_here, notebook

pytest.importorskip("h5py")
FILES = """
import h5py, io, os
from pathlib import Path
with h5py.File("a.h5", "w") as made: made["x"] = [1, 2, 3]
del made
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_one_that_was_opened_in_another_directory_is_not_taken_for_what_has_its_name_here(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    namespace = notebook(FILES, "file = h5py.File('a.h5'); rows = file['x']; root = file['/']; os.chdir('sub')", FILES)
    with namespace["h5py"].File("a.h5", "a") as other:
        other["x"][0] = 7

    cross_here(namespace, "seen = [int(rows[0]), int(file['x'][0]), type(root).__name__]; file.close()")

    assert namespace["seen"] == [1, 1, "Group"]


@pytest.mark.parametrize(
    "cell, why",
    [
        ("held = h5py.File(io.BytesIO(Path('a.h5').read_bytes()))", "is not a full path of a file"),
        ("held = h5py.File('a.h5'); os.unlink('a.h5')", "does not exist any more"),
        ("held = type('Mine', (h5py.File,), {})('a.h5')", "a class of its own"),
        ("held = h5py.File('a.h5').attrs", "what h5py keeps of a file"),
    ],
)
def test_what_cannot_be_opened_again_is_named_before_the_start(cell: str, why: str) -> None:
    with pytest.raises(CannotTravel, match=why):
        ship(["held"], notebook(FILES, cell))
