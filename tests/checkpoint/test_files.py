"""Checkpoints as files: what is saved is found again, by us and by other tools, and the newest that holds is taken."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from safetensors import safe_open

from jupyter_gpufit.checkpoint.files import listed, newest, open_checkpoint
from jupyter_gpufit.checkpoint.manifest import MANIFEST, STATE
from jupyter_gpufit.checkpoint.publish import publish_again
from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.errors import CheckpointBroken
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, assert_is, bytes_of, plain, step_of, training, writing

pytestmark = pytest.mark.slow  # each starts the process that writes


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def _save(directory: Path, *steps: int, epoch: int = 1, keep: int = 3) -> list[Path]:
    with writing(directory, epoch=epoch, keep=keep) as writer:
        return [writer.save(training(step), about(step, epoch)).result().path for step in steps]


def test_what_was_saved_is_read_back(directory: Path) -> None:
    with writing(directory) as writer:
        saved = writer.save(training(1, 50 * MiB), about(1)).result()
    with open_checkpoint(saved.path) as opened:
        assert_is(opened, training(1, 50 * MiB))
        assert opened.about == about(1)
    assert saved.nbytes == sum(
        (saved.path / name).stat().st_size for name in os.listdir(saved.path) if name != MANIFEST
    )
    assert directory.stat().st_mode & 0o777 == saved.path.stat().st_mode & 0o777 == 0o700


def test_other_tools_open_the_weights(directory: Path) -> None:
    (path,) = _save(directory, 1)
    snapshot = training(1)
    with safe_open(path / STATE, "np") as file:
        assert set(file.keys()) == {blob.name for blob in snapshot.blobs}
        for blob in snapshot.blobs:
            if blob.dtype != "BF16":  # which numpy has not
                found = file.get_tensor(blob.name)
                assert found.shape == blob.shape and found.tobytes() == bytes_of(blob)


def test_the_newest_whole_one_is_found_and_broken_ones_are_named(directory: Path) -> None:
    paths = _save(directory, 1, 2, 3)
    (paths[2] / STATE).unlink()
    os.truncate(paths[1] / STATE, 1000)

    found = newest(directory)

    assert found.opened is not None and found.opened.about.step == 1
    found.opened.close()
    assert [Path(error.path) for error in found.skipped] == [paths[2], paths[1]]
    assert "state.safetensors is missing" in found.remarks[0] and "1000 bytes" in found.remarks[1]
    good, bad = listed(directory)
    assert [checkpoint.about.step for checkpoint in good] == [1] and len(bad) == 2


def test_an_earlier_one_becomes_the_newest_and_is_written_no_second_time(directory: Path) -> None:
    first, *_ = _save(directory, 1, 2, 3)

    again = publish_again(directory, first.name, 2)

    found = newest(directory)
    assert found.opened is not None and found.opened.path == again.path
    with found.opened as opened:
        assert_is(opened, training(1))
        assert opened.about == replace(about(1), epoch=2)
    for name in again.manifest.files:
        assert (again.path / name).samefile(first / name)
    good, bad = listed(directory)
    assert [checkpoint.about.step for checkpoint in good] == [1, 3, 2, 1] and not bad
    _save(directory, 4, epoch=3)  # and others are written on top of it
    assert [checkpoint.about.step for checkpoint in listed(directory)[0]] == [4, 1, 3]


def test_an_earlier_one_that_is_broken_becomes_nothing(directory: Path) -> None:
    first, second = _save(directory, 1, 2)
    with (first / STATE).open("r+b") as file:
        file.write(b"x")

    with pytest.raises(CheckpointBroken):
        publish_again(directory, first.name, 2)

    assert sorted(os.listdir(directory)) == [first.name, second.name]


def test_without_checkpoints_none_is_found(directory: Path) -> None:
    assert newest(directory).opened is None and listed(directory) == ([], [])
    directory.mkdir()
    assert newest(directory).opened is None


def test_only_the_newest_stay(directory: Path) -> None:
    paths = _save(directory, 1, 2, 3, 4, 5, keep=2)
    assert sorted(directory.iterdir()) == paths[3:]


def test_broken_ones_do_not_count_among_those_kept_and_go_when_they_are_old(directory: Path) -> None:
    first, second = _save(directory, 1, 2, keep=2)
    (second / MANIFEST).unlink()
    third, fourth = _save(directory, 3, 4, keep=2)
    assert sorted(directory.iterdir()) == [third, fourth] and not first.exists()


def test_a_later_worker_goes_on_counting(directory: Path) -> None:
    _save(directory, 1, 2)
    (third,) = _save(directory, 3, epoch=2)
    assert third.name == "000002-000001" and step_of(directory) == 3
    shutil.rmtree(third)
    assert _save(directory, 4)[0].name == "000001-000003"


def test_a_checkpoint_is_read_to_its_end_although_it_was_pruned(directory: Path) -> None:
    (first,) = _save(directory, 1)
    with open_checkpoint(first) as opened:
        _save(directory, 2, keep=1)
        assert not first.exists()
        assert_is(opened, training(1))


def test_data_that_did_not_change_is_on_the_disk_once(directory: Path) -> None:
    data = os.urandom(30 * MiB)

    def snapshot(step: int) -> Snapshot:
        made = training(step)
        return replace(made, blobs=(*made.blobs, plain("dataset", data, changes="seldom")))

    with writing(directory) as writer:
        first, second = (writer.save(snapshot(step), about(step)).result() for step in (1, 2))
    with writing(directory, epoch=2) as writer:  # a later worker, too
        third = writer.save(snapshot(3), about(3, 2)).result()
    kept = [checkpoint.path / "kept-000001-000001.safetensors" for checkpoint in (first, second, third)]
    assert len({path.stat().st_ino for path in kept}) == 1
    assert first.written > 30 * MiB and second.written < MiB and third.written < MiB
    assert third.nbytes > 30 * MiB

    for path in (first.path, second.path):
        shutil.rmtree(path)
    with open_checkpoint(third.path) as opened:
        assert_is(opened, snapshot(3))


def test_a_kept_file_that_rotted_is_not_linked_again(directory: Path) -> None:
    data = os.urandom(MiB)

    def save(epoch: int, number: int) -> list[BaseException | None]:
        with writing(directory, epoch=epoch) as writer:
            made = training(1)
            made = replace(made, blobs=(*made.blobs, plain("dataset", data, changes="seldom")))
            return [writer.save(made, about(1, epoch)).exception() for _ in range(number)]

    assert save(1, 1) == [None]
    kept = directory / "000001-000001" / "kept-000001-000001.safetensors"
    with open(kept, "r+b") as file:
        file.seek(MiB // 2)
        file.write(b"rot!")
    refused, then = save(2, 2)
    assert "not as it was written" in str(refused) and then is None
    found = newest(directory)
    assert found.opened is not None and found.opened.path.name == "000002-000002"
    found.opened.close()
    with pytest.raises(CheckpointBroken, match="in dataset"):
        open_checkpoint(kept.parent)
