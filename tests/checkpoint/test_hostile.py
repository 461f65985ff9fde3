"""Files that mean harm, or came to harm: nothing of them is handed out, so that nothing can be unpickled."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.checkpoint.checksum import checksum
from jupyter_gpufit.checkpoint.files import newest, open_checkpoint
from jupyter_gpufit.checkpoint.manifest import GRAPH, MANIFEST, STATE, Manifest, StoredFile
from jupyter_gpufit.errors import CheckpointBroken, NotYours
from tests.checkpoint.snapshots import about, assert_is, plain, training, writing
from tests.people import ADA, need_root

pytestmark = pytest.mark.slow  # each reads checkpoints that a real writer wrote


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two checkpoints, which share a file."""
    directory = tmp_path_factory.mktemp("job") / "checkpoints"
    with writing(directory) as writer:
        for step in (1, 2):
            made = training(step, 20_000)
            blobs = (*made.blobs, plain("dataset", b"same" * 999, changes="seldom"))
            writer.save(replace(made, blobs=blobs), about(step)).result()
    return directory


@pytest.fixture
def directory(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "checkpoints"))


@pytest.fixture
def one(directory: Path) -> Path:
    return directory / "000001-000002"


def _refused(path: Path, why: str) -> None:
    with pytest.raises((CheckpointBroken, NotYours), match=why):
        open_checkpoint(path)


def _files(path: Path) -> list[Path]:
    return sorted(path.iterdir())


def test_every_flipped_bit_is_noticed(one: Path) -> None:
    open_checkpoint(one).close()
    chance = random.Random(5)
    for path in _files(one):
        good = path.read_bytes()
        places = {0, len(good) - 1, *(chance.randrange(len(good)) for _ in range(60))}
        for place in places:
            bad = bytearray(good)
            bad[place] ^= 1 << chance.randrange(8)
            path.write_bytes(bad)
            try:
                same = json.loads(bytes(bad)) == json.loads(good) if path.name == MANIFEST else False
            except ValueError:
                same = False
            if not same:  # a space of the manifest that became another kind of space
                _refused(one, ".")
        path.write_bytes(good)
    open_checkpoint(one).close()


@pytest.mark.parametrize("part", [0, 1, 7, 100, -1])
def test_every_cut_is_noticed(one: Path, part: int) -> None:
    for path in _files(one):
        good = path.read_bytes()
        path.write_bytes(good[:part].rstrip())
        if path.name != MANIFEST or part >= 0:  # which ends in a newline
            _refused(one, "were written|cannot be read")
        path.write_bytes(good + b"!")
        if path.name != MANIFEST:
            _refused(one, "were written")
        path.write_bytes(good)


def test_every_missing_file_is_noticed(one: Path) -> None:
    for path in _files(one):
        good = path.read_bytes()
        path.unlink()
        _refused(one, f"{path.name} is missing")
        path.write_bytes(good)


@pytest.mark.parametrize("part", [GRAPH, STATE, MANIFEST])
def test_parts_of_two_checkpoints_do_not_make_one(directory: Path, one: Path, part: str) -> None:
    shutil.copy(directory / "000001-000001" / part, one / part)
    _refused(one, "was changed after|was written as|were written|in ")
    with_older = newest(directory)
    assert with_older.opened is not None and with_older.opened.about.step == 1
    with_older.opened.close()


def test_a_checkpoint_is_only_what_its_name_says(directory: Path, one: Path) -> None:
    os.rename(one, directory / "000009-000001")
    _refused(directory / "000009-000001", "it was written as 000001-000002")


@pytest.mark.parametrize("part", [GRAPH, STATE, MANIFEST, "kept-000001-000001.safetensors"])
def test_links_are_not_followed(one: Path, tmp_path: Path, part: str) -> None:
    os.rename(one / part, tmp_path / part)
    (one / part).symlink_to(tmp_path / part)
    _refused(one, f"{part} is a link")


def test_a_linked_checkpoint_is_none(directory: Path, one: Path, tmp_path: Path) -> None:
    os.rename(one, tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    _refused(one, "cannot be read")


def _fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


@pytest.mark.parametrize("make", [_fifo, Path.mkdir])
@pytest.mark.parametrize("part", [MANIFEST, STATE])
def test_other_things_than_files_do_not_hold_it_up(one: Path, part: str, make: Callable[[Path], None]) -> None:
    (one / part).unlink()
    make(one / part)
    _refused(one, f"{part} is not a plain file")


def _rewrite(path: Path, change: Callable[[Manifest], Manifest]) -> None:
    """Write a manifest whose checksum is right."""
    manifest = change(Manifest.from_json((path / MANIFEST).read_text()))
    (path / MANIFEST).write_text(manifest.to_json())


def test_a_manifest_that_reaches_outside_is_refused(one: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"secret")
    outside = StoredFile(6, 6, checksum(b"secret"))
    for name in ("../../victim", str(tmp_path / "victim"), f"../{one.name}/{GRAPH}"):
        _rewrite(one, lambda good, name=name: replace(good, files={**good.files, name: outside}))  # type: ignore[misc]
        _refused(one, "no file of a checkpoint")
        _rewrite_whole(one)


def _rewrite_whole(one: Path) -> None:
    record = json.loads((one / MANIFEST).read_text())
    body = record["body"]
    body["files"] = {name: file for name, file in body["files"].items() if "/" not in name}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    record = {"format": 1, "checksum": checksum(text.encode()), "body": body}
    (one / MANIFEST).write_text(json.dumps(record))


def test_a_name_that_leaves_the_directory_is_no_checkpoint(directory: Path, one: Path) -> None:
    _refused(directory / ".." / "checkpoints" / "nothing", "cannot be read|No such file")
    (directory / "000003-000001x").mkdir()
    (directory / ".000003-000001.1.ab.tmp").mkdir()
    (directory / "000003-000002").mkdir()
    found = newest(directory)
    assert found.opened is not None and found.opened.path == one and len(found.skipped) == 1
    found.opened.close()


class _Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def _plant(one: Path, bomb: Path, *, checked: bool) -> None:
    code = pickle.dumps(_Bomb(bomb))
    (one / GRAPH).write_bytes(code)
    if checked:
        file = StoredFile(len(code), len(code), checksum(code))
        _rewrite(one, lambda good: replace(good, files={**good.files, GRAPH: file}))


def _resume(directory: Path) -> None:
    """What a resume does: the newest that holds, and its graph unpickled."""
    opened = newest(directory).opened
    if opened is not None:
        with opened:
            try:
                pickle.loads(opened.graph)
            except Exception:
                pass  # the other graphs of these tests are no pickles


def test_planted_code_does_not_run_when_the_checksums_do_not_hold(directory: Path, one: Path, tmp_path: Path) -> None:
    _plant(one, tmp_path / "bomb", checked=False)
    _resume(directory)
    assert not (tmp_path / "bomb").exists()


@pytest.mark.parametrize("place", ["", "..", "000001-000002", "000001-000002/graph.pkl", "000001-000002/manifest.json"])
def test_planted_code_does_not_run_where_others_can_write(
    directory: Path, one: Path, tmp_path: Path, place: str
) -> None:
    shutil.rmtree(directory / "000001-000001")
    _plant(one, tmp_path / "bomb", checked=True)
    os.chmod(directory / place, (directory / place).stat().st_mode | 0o002)

    try:
        _resume(directory)
    except NotYours as refusal:
        assert "can be written by others" in str(refusal)

    assert not (tmp_path / "bomb").exists()
    os.chmod(directory / place, (directory / place).stat().st_mode & ~0o022)
    _resume(directory)
    assert (tmp_path / "bomb").exists()  # it would have run: the test tests something


@pytest.mark.parametrize("place", ["", "..", "000001-000002", "000001-000002/graph.pkl", "000001-000002/manifest.json"])
def test_another_users_checkpoint_is_not_loaded(directory: Path, one: Path, tmp_path: Path, place: str) -> None:
    need_root()
    shutil.rmtree(directory / "000001-000001")
    _plant(one, tmp_path / "bomb", checked=True)
    os.chown(directory / place, ADA, ADA)
    try:
        _resume(directory)
    except NotYours as refusal:
        assert f"belongs to uid {ADA}" in str(refusal)
    assert not (tmp_path / "bomb").exists()


def test_a_directory_reached_through_a_link_is_judged_where_it_is(directory: Path, tmp_path: Path) -> None:
    open_place = tmp_path / "open"
    (open_place / "deep").mkdir(parents=True)
    os.rename(directory, open_place / "deep" / "checkpoints")
    directory.symlink_to(open_place / "deep" / "checkpoints")
    found = newest(directory)  # one's own link to another disk is fine
    assert found.opened is not None
    found.opened.close()

    open_place.chmod(0o777)
    with pytest.raises(NotYours, match="can be written by others"):
        newest(directory)


def test_what_was_good_is_still_read(directory: Path, one: Path) -> None:
    with open_checkpoint(one) as opened:
        made = training(2, 20_000)
        blobs = (*made.blobs, plain("dataset", b"same" * 999, changes="seldom"))
        assert_is(opened, replace(made, blobs=blobs))
