"""Whether a file is a model is known from a few bytes of it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from jupyter_gpufit.errors import ModelRefused
from jupyter_gpufit.models.file import check_file
from jupyter_gpufit.units import GiB

# Outermost fields as onnx writes them: ir_version 10, and a graph of three bytes.
SMALLEST = b"\x08\x0a" + b"\x3a\x03abc"


def written(folder: Path, content: bytes) -> Path:
    path = folder / "net.onnx"
    path.write_bytes(content)
    return path


def refused(path: Path) -> str:
    with pytest.raises(ModelRefused) as found:
        check_file(path)
    return found.value.why


def test_the_outermost_fields_to_the_last_byte_make_a_model(tmp_path: Path) -> None:
    check_file(written(tmp_path, SMALLEST))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\x40" + bytes(7) + b'{"w":{}}', "weights without a module; to put them onto one: %gpufit deploy model"),
        (b"\0" * 64, "not an ONNX file: what stands at byte 0"),
        (b"\xff" * 64, "not an ONNX file: what stands at byte 0"),
        (SMALLEST[:-1], "it is cut off, or not an ONNX file: it has 6 B"),
        (SMALLEST + b"\x3a", "not an ONNX file: what stands at byte 7"),
        (b"\x08\x0a", "there is no graph in it"),
        (b"\x08\x0a" * 100_001, "over 100,000 parts"),
        (b"\x80\x04rest of a pickle", "it is a pickle; to deploy a module: %gpufit deploy model --example x"),
        (b"version https://git-lfs.github.com/spec/v1", "a pointer of Git LFS"),
    ],
    ids=range(10),
)
def test_anything_else_is_refused_with_the_reason(tmp_path: Path, content: bytes, why: str) -> None:
    assert why in refused(written(tmp_path, content))


def test_an_archive_of_torch_is_told_from_a_model(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "net.onnx", "w") as archive:
        archive.writestr("data.pkl", b"")
    assert "torch.save() writes; to deploy a module" in refused(tmp_path / "net.onnx")


def test_junk_of_ten_gigabytes_is_refused_without_reading_it(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xf3junk")
    os.truncate(path, 10 * GiB)  # a file with a hole: to read it would take many seconds
    assert "not an ONNX file: what stands at byte 0" in refused(path)


def test_a_model_too_large_for_one_message_is_told_what_to_do(tmp_path: Path) -> None:
    head = b"\x08\x0a\x3a" + b"\x80\x80\x80\x80\x0c"  # a graph of 3 GiB, as protobuf writes the number
    path = written(tmp_path, head)
    os.truncate(path, len(head) + 3 * GiB)
    assert "save_as_external_data=True" in refused(path)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refused(tmp_path / "none.onnx")
    assert "it is a directory" in refused(tmp_path)
