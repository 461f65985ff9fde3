"""A silent rank finds what it has written."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from jupyter_gpufit.system.contained import Contained
from jupyter_gpufit.worker.ranks import files


def test_what_is_mapped_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    firsts, own = tmp_path / "first", tmp_path / "own"
    own.mkdir()
    contained = Contained(own, "a rank", lambda what: None, is_trial=False)
    monkeypatch.setattr(torch.UntypedStorage, "from_file", torch.UntypedStorage.from_file)
    files._redirect_mapping(contained)
    torch.save(torch.zeros(3), firsts)
    torch.save(torch.ones(3), contained.place_of(firsts, "w"))

    assert torch.load(firsts, mmap=True).tolist() == [1.0] * 3
    mapped = torch.UntypedStorage.from_file(str(firsts), True, firsts.stat().st_size)
    assert isinstance(mapped, torch.UntypedStorage)
    mapped[0] = 0
    assert torch.load(firsts).tolist() == [0.0] * 3


@pytest.mark.parametrize("is_trial", [False, True])
def test_a_file_without_a_name_leaves_its_folder_as_it_is(tmp_path: Path, is_trial: bool) -> None:
    """As numba looks whether it may keep what it compiles."""
    own, folder = tmp_path / "own", tmp_path / "cache"
    own.mkdir()
    folder.mkdir()
    if not (pid := os.fork()):
        status = 1
        with suppress(BaseException):
            contained = Contained(own, "a rank", lambda what: None, is_trial=is_trial)
            contained.begin()
            os.makedirs(folder, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(b"here")
            (folder / "later").write_text("too")
            status = os.listdir(folder) != [] or (folder / "later").read_text() != "too"
        os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    assert not [*folder.iterdir()]


def test_files_of_an_earlier_cell_are_read_and_written_beside_the_first_ranks(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("data", "both"):
        (tmp_path / name).write_text("one\ntwo\n")
    with (tmp_path / "data").open() as data, (tmp_path / "both").open("r+") as both:
        if not (pid := os.fork()):
            status = 1
            with suppress(BaseException):
                contained = Contained(own, "a rank", lambda what: None, is_trial=False)
                files.part_from_first([data, data.buffer.raw, both.buffer.raw], contained)  # type: ignore[attr-defined]
                contained.close_open_ends([])
                found = [data.readline(), both.read()]
                both.write("three\n")
                both.seek(0)
                found.append(both.read())
                status = found != ["one\n", "one\ntwo\n", "one\ntwo\nthree\n"]
            os._exit(status)
        _, status = os.waitpid(pid, 0)

        assert status == 0
        assert data.read() == both.read() == "one\ntwo\n" == (tmp_path / "both").read_text()
