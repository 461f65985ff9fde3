"""Is this file a model? Its outermost fields tell, without reading what they hold.

An ONNX file is one protobuf message: fields of a number, a kind and a length, one after the other, to the last byte of
the file. So a file that is cut off, or is something else, is known by a few bytes of it, however large it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..errors import ModelRefused
from ..units import GiB, format_bytes

LARGEST = 2 * GiB  # protobuf reads no larger message
MOST_FIELDS = 100_000  # a model has as many as it has operator sets, functions and notes
GRAPH = 7  # of onnx.ModelProto
FIELDS = range(1, 64)  # numbers that a model may have, today's and a later format's

_OTHERS = {
    b"PK\x03\x04": "a zip archive, such as torch.save() writes; to deploy a module: %gpufit deploy model --example x",
    b"\x80": "a pickle; to deploy a module: %gpufit deploy model --example x",
    b"\x89HDF": "an HDF5 file, such as Keras writes; tf2onnx makes a model of it",
    b"version https://git-lfs": "a pointer of Git LFS; the file itself comes with: git lfs pull",
}


def check_file(path: Path) -> None:
    """Raise ModelRefused unless the file has the form of a model, from its first byte to its last."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise ModelRefused(name, "it is empty.")
            if other := _other(file.read(32)):
                raise ModelRefused(name, f"it is {other}.")
            file.seek(0)
            numbers = set(_fields(file, size, name))
    except IsADirectoryError:
        raise ModelRefused(name, "it is a directory; name the .onnx file in it.") from None
    except OSError as error:
        raise ModelRefused(name, f"it cannot be read: {error.strerror}.") from error
    if GRAPH not in numbers:
        raise ModelRefused(name, "it is not an ONNX file: there is no graph in it.")
    if size >= LARGEST:
        raise ModelRefused(
            name,
            f"it has {format_bytes(size)}, and such a file is read up to {format_bytes(LARGEST)}. Keep its weights"
            " beside it: onnx.save(model, path, save_as_external_data=True).",
        )


def _other(begin: bytes) -> str:
    if begin[8:9] == b"{":  # behind the length of this JSON
        return (
            "a .safetensors file, weights without a module; to put them onto one: %gpufit deploy model --example x"
            " --weights FILE"
        )
    return next((words for magic, words in _OTHERS.items() if begin.startswith(magic)), "")


def _fields(file: BinaryIO, size: int, name: str) -> Iterator[int]:
    """The numbers of the outermost fields."""
    for _ in range(MOST_FIELDS):
        at = file.tell()
        if at == size:
            return
        tag = _varint(file)
        number, kind = (tag >> 3, tag & 7) if tag is not None else (0, 0)
        length = _length(file, kind)
        if tag is None or length is None or number not in FIELDS:
            raise ModelRefused(name, f"it is not an ONNX file: what stands at byte {at:,} belongs to none.")
        if file.tell() + length > size:
            raise ModelRefused(
                name,
                f"it is cut off, or not an ONNX file: it has {format_bytes(size)}, and what begins at byte {at:,} would"
                f" need {format_bytes(file.tell() + length)}. Copy or download it again.",
            )
        file.seek(length, os.SEEK_CUR)
        yield number
    raise ModelRefused(name, f"it is not an ONNX file: it has over {MOST_FIELDS:,} parts.")


def _length(file: BinaryIO, kind: int) -> int | None:
    """How many bytes follow; None: the field makes no sense."""
    match kind:
        case 0:
            return None if _varint(file) is None else 0
        case 1:
            return 8
        case 2:
            return _varint(file)
        case 5:
            return 4
    return None


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 70, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
