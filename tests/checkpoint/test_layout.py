"""Where blobs go, and what a manifest may say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.checkpoint.checksum import PIECE, Section, Sums, checksum, runs
from jupyter_gpufit.checkpoint.layout import ALIGN, BLOCK, lay_out, unchanged
from jupyter_gpufit.checkpoint.manifest import GRAPH, STATE, Malformed, Manifest, StoredBlob, StoredFile
from jupyter_gpufit.checkpoint.request import WriterRequest
from jupyter_gpufit.checkpoint.values import DTYPES, Blob, Snapshot
from jupyter_gpufit.jobs.epoch import is_name, name_of
from tests.checkpoint.snapshots import about, copied, plain, training


def test_every_tensor_begins_where_its_type_may() -> None:
    snapshot = training(1)
    layout = lay_out("000001-000001", snapshot, {}, ())
    (state,) = [image for image in layout.images if image.file == STATE]
    assert state.head % ALIGN == 0 and state.start % BLOCK == 0
    for number, at in zip(state.blobs, state.at, strict=True):
        assert at % DTYPES[snapshot.blobs[number].dtype] == 0
    ends = [at + snapshot.blobs[number].nbytes for number, at in zip(state.blobs, state.at, strict=True)]
    assert [state.head, *ends] == [*state.at, state.nbytes]  # without gaps, as the format demands


def test_names_sort_as_they_were_written() -> None:
    assert name_of(1, 999_999) < name_of(2, 1) < name_of(2, 10)
    assert is_name(name_of(12, 1_000_000)) and not is_name(".000001-000001.12.ab.tmp") and not is_name("../x")


@given(st.lists(st.integers(0, 3 * 100), max_size=20))
def test_sums_in_runs_are_the_sums_of_the_whole(sizes: list[int]) -> None:
    data = bytes(range(256)) * 40
    sections, at = [], 0
    for size in sizes:
        sections.append(Section(at, size))
        at += size
    sums = Sums(sections)
    for run in reversed(list(runs(sections))):
        sums.take(run, memoryview(data)[run.start : run.end])
    for number, section in enumerate(sections):
        assert sums.of(number) == checksum(data[section.at : section.at + section.nbytes])


def test_a_run_is_never_longer_than_a_piece_and_leaves_gaps_out() -> None:
    sections = [Section(0, 10), Section(10, 3 * PIECE + 5), Section(4 * PIECE, 10)]
    found = list(runs(sections))
    assert all(run.end - run.start <= PIECE for run in found)
    assert sum(run.end - run.start for run in found) == 3 * PIECE + 25


def _manifest(*blobs: StoredBlob, files: Mapping[str, StoredFile] | None = None) -> Manifest:
    given_files = {GRAPH: StoredFile(5, 5, "00"), STATE: StoredFile(1000, 100, "00")} | dict(files or {})
    return Manifest("000001-000001", about(), given_files, blobs)


STORED = StoredBlob("w", "F32", (2, 3), 24, STATE, 104, "ab")


def test_a_manifest_comes_back_as_it_was() -> None:
    manifest = _manifest(STORED, replace(STORED, name="scale", shape=(), nbytes=4))
    assert Manifest.from_json(manifest.to_json()) == manifest


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"file": "../../victim"}, "into no file of its own"),
        ({"file": GRAPH}, "into no file of its own"),
        ({"at": 99}, "outside its file"),
        ({"at": 977}, "outside its file"),
        ({"at": -8}, "outside its file"),
        ({"at": 104.0}, "no number"),
        ({"nbytes": "24"}, "no number|cannot be read"),
        ({"shape": (2, 4)}, "a size that its shape does not have"),
        ({"shape": (-2, -3)}, "a size that its shape does not have"),
        ({"shape": (1 << 80, 0), "nbytes": 24}, "a size that its shape does not have"),
        ({"dtype": "F31"}, "cannot be read"),
        ({"shape": None}, "cannot be read"),
    ],
)
def test_a_blob_is_refused_that_does_not_lie_in_its_file(change: dict[str, Any], why: str) -> None:
    with pytest.raises(Malformed, match=why):
        Manifest.from_json(_manifest(StoredBlob(**vars(STORED) | change)).to_json())


@pytest.mark.parametrize(
    "file",
    ["../state.safetensors", "/etc/passwd", "kept-1-1.safetensors", "kept-000001-000001.safetensors/x", "a\0b", ""],
)
def test_a_file_is_refused_that_no_checkpoint_has(file: str) -> None:
    with pytest.raises(Malformed, match="no file of a checkpoint"):
        Manifest.from_json(_manifest(files={file: StoredFile(1, 1, "")}).to_json())


def test_the_graph_must_be_there_and_checked_as_a_whole() -> None:
    with pytest.raises(Malformed, match="no graph"):
        Manifest.from_json(replace(_manifest(), files={}).to_json())
    with pytest.raises(Malformed, match="unchecked"):
        Manifest.from_json(_manifest(files={GRAPH: StoredFile(5, 0, "")}).to_json())


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", "{" * 100_000, '{"format": 1}', "\xff", '{"format": "x"}'])
def test_whatever_else_lies_there_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(Malformed, match="its manifest cannot be read"):
        Manifest.from_json(text)


def test_a_later_format_is_refused_and_an_unknown_key_ignored() -> None:
    record = json.loads(_manifest(STORED).to_json())
    with pytest.raises(Malformed, match="later version"):
        Manifest.from_json(json.dumps(record | {"format": 2}))
    record["body"]["colour"] = record["body"]["about"]["colour"] = "blue"
    record["checksum"] = checksum(json.dumps(record["body"], sort_keys=True, separators=(",", ":")).encode())
    assert Manifest.from_json(json.dumps(record)) == _manifest(STORED)


def test_a_request_survives_its_line() -> None:
    snapshot = training(3)
    layout = lay_out("000001-000002", snapshot, {}, {0})
    request = WriterRequest.of("000001-000002", about(3), 3, snapshot, layout, "000001-000001")
    assert WriterRequest.decode(request.encode()) == request


# What is written again, and what is linked.

DATA, FROZEN = b"data" * 1000, b"frozen" * 10


def _seldom(data: bytes = DATA, frozen: bytes = FROZEN) -> list[Blob]:
    return [copied("w", b"1234"), plain("s1", data, changes="seldom"), plain("s2", frozen, changes="seldom")]


def _sum_of(blobs: Sequence[Blob]) -> Any:
    from jupyter_gpufit.checkpoint.writer import _sums

    return lambda asked: _sums(blobs, asked)


def _saved(blobs: Sequence[Blob], before: Manifest | None, name: str) -> Manifest:
    """The manifest that a checkpoint of these blobs gets."""
    linked, stable = unchanged(blobs, before, _sum_of(blobs))
    snapshot = Snapshot(b"", tuple(blobs))
    layout = lay_out(name, snapshot, linked, stable)
    files = {image.file: StoredFile(image.nbytes, image.head, "") for image in layout.images}
    if before is not None:
        files |= {place.file: before.files[place.file] for place in linked.values()}
    stored = WriterRequest.of(name, about(), 3, snapshot, layout, before.name if before else "").blobs
    sums = _sum_of(blobs)([number for number, blob in enumerate(blobs) if blob.address])
    return Manifest(name, about(), files, tuple(replace(b, checksum=sums.get(n, "")) for n, b in enumerate(stored)))


def _places(manifest: Manifest) -> list[str]:
    return [blob.file.removesuffix(".safetensors") for blob in manifest.blobs]


def test_data_that_stays_the_same_is_written_once() -> None:
    first = _saved(_seldom(), None, "000001-000001")
    second = _saved(_seldom(), first, "000001-000002")
    assert _places(first) == _places(second) == ["state", "kept-000001-000001", "kept-000001-000001"]


def test_the_same_bytes_are_found_under_another_number() -> None:
    first = _saved(_seldom(), None, "000001-000001")
    now = [copied("w", b"1234"), plain("s7", FROZEN, changes="seldom"), plain("s8", DATA, changes="seldom")]
    assert _places(_saved(now, first, "000001-000002"))[1:] == ["kept-000001-000001"] * 2


def test_what_changes_after_all_goes_to_the_state_until_it_rests() -> None:
    first = _saved(_seldom(), None, "000001-000001")
    second = _saved(_seldom(frozen=b"thawed" * 10), first, "000001-000002")
    assert _places(second) == ["state", "kept-000001-000001", "state"]
    third = _saved(_seldom(frozen=b"thawed" * 10), second, "000001-000003")
    assert _places(third) == ["state", "kept-000001-000001", "kept-000001-000003"]


def test_new_data_gets_a_file_of_its_own() -> None:
    first = _saved(_seldom()[:2], None, "000001-000001")
    second = _saved(_seldom(), first, "000001-000002")
    assert _places(second) == ["state", "kept-000001-000001", "kept-000001-000002"]
    assert _places(_saved(_seldom(), second, "000001-000003")) == _places(second)


def test_a_file_of_which_little_is_used_is_not_kept_alive() -> None:
    first = _saved(_seldom(), None, "000001-000001")
    second = _saved(_seldom(data=b"else" * 1000), first, "000001-000002")
    assert _places(second) == ["state", "state", "kept-000001-000002"]
