"""Trainings to be saved, made of bytes alone: the files of a checkpoint know nothing of torch."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path

from jupyter_gpufit.checkpoint.files import OpenedCheckpoint, newest
from jupyter_gpufit.checkpoint.manifest import About
from jupyter_gpufit.checkpoint.values import DTYPES, Blob, Changes, Snapshot
from jupyter_gpufit.checkpoint.writer import Writer


def about(step: int = 0, epoch: int = 1, automatic: bool = False) -> About:
    return About(
        step=step, epoch=epoch, time=1e9 + step, where=f"line {step} of the cell", device="slot 0", automatic=automatic
    )


def copied(name: str, data: bytes, dtype: str = "U8", shape: Sequence[int] | None = None) -> Blob:
    """A blob that copies itself, as one on a GPU does."""

    def write(view: memoryview) -> None:
        view[:] = data

    return Blob(name, dtype, tuple(shape or (len(data) // DTYPES[dtype],)), len(data), write)


def plain(name: str, data: bytes, *, dtype: str = "U8", changes: Changes = "often") -> Blob:
    """A blob of plain memory, which threads copy."""
    memory = ctypes.create_string_buffer(data, len(data))

    def write(view: memoryview) -> None:
        raise AssertionError(f"{memory} has an address")

    shape = (len(data) // DTYPES[dtype],)
    return Blob(name, dtype, shape, len(data), write, address=ctypes.addressof(memory), changes=changes)


def training(step: int, nbytes: int = 100_000) -> Snapshot:
    """Different bytes at every step: small and large blobs, of several types, an empty one and an odd one."""
    make = random.Random(step).randbytes
    part = nbytes // 80 * 8
    blobs = [plain(f"model.{number}.weight", make(part), dtype="F32") for number in range(9)]
    blobs.insert(1, copied("s1", make(part // 2 + 3)))
    blobs.insert(3, copied("model.bias", make(part // 8 * 4), "BF16", (2, part // 8)))
    blobs += [copied("empty", b"", "F64", (0, 3)), copied("scale", make(8), "F64", ())]
    return Snapshot(f"graph of step {step}".encode() + make(333), tuple(blobs))


def bytes_of(blob: Blob) -> bytes:
    assert prod(blob.shape) * DTYPES[blob.dtype] == blob.nbytes
    if blob.address is not None:
        return ctypes.string_at(blob.address, blob.nbytes)
    data = bytearray(blob.nbytes)
    blob.write(memoryview(data))
    return bytes(data)


def contents(opened: OpenedCheckpoint) -> tuple[bytes, list[bytes]]:
    found = [bytearray(blob.nbytes) for blob in opened.manifest.blobs]
    opened.read_many((number, memoryview(data)) for number, data in enumerate(found))
    return opened.graph, [bytes(data) for data in found]


def assert_is(opened: OpenedCheckpoint | None, snapshot: Snapshot) -> None:
    assert opened is not None
    graph, blobs = contents(opened)
    assert graph == snapshot.graph
    assert blobs == [bytes_of(blob) for blob in snapshot.blobs]
    assert [blob.name for blob in opened.manifest.blobs] == [blob.name for blob in snapshot.blobs]


def step_of(directory: Path) -> int | None:
    """Of the newest checkpoint that holds; it is compared with what was saved."""
    opened = newest(directory).opened
    if opened is None:
        return None
    with opened:
        assert_is(opened, training(opened.about.step, sum(blob.nbytes for blob in opened.manifest.blobs[:1]) * 10))
        return opened.about.step


@contextmanager
def writing(directory: Path, *, epoch: int = 1, keep: int = 3) -> Iterator[Writer]:
    writer = Writer(directory, epoch, keep)
    try:
        yield writer
    finally:
        writer.close()
