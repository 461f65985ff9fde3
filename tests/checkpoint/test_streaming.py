"""A checkpoint for whose buffer there is no memory: it passes through a window, and is the same on the disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint import streaming
from jupyter_gpufit.checkpoint.checksum import PIECE, checksum
from jupyter_gpufit.checkpoint.files import newest
from jupyter_gpufit.checkpoint.layout import BLOCK
from jupyter_gpufit.checkpoint.manifest import MANIFEST, Manifest
from jupyter_gpufit.checkpoint.publish import remove_leftovers
from jupyter_gpufit.checkpoint.values import Blob, Snapshot
from jupyter_gpufit.checkpoint.writer import TooLong, Writer
from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, assert_is, plain, step_of, training, writing
from tests.people import PATIENCE

pytestmark = pytest.mark.slow  # each starts the process that writes

ROOM = 63 * MiB  # bytes of free memory: no buffer's first 64 MiB, and enough for the small windows here


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


@pytest.fixture
def writer(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    monkeypatch.setattr(streaming, "SIZE", PIECE)
    writer = Writer(directory, 1, 2, free=lambda: ROOM)
    yield writer
    writer.close()


def _mixed(written: list[str]) -> Snapshot:
    """Blobs that end in the middle of blocks and of windows, with an address and without; those name themselves."""
    make = random.Random(7).randbytes

    def on_device(name: str, nbytes: int) -> Blob:
        data = make(nbytes)

        def write(view: memoryview) -> None:
            written.append(name)
            view[:] = data

        return Blob(name, "U8", (nbytes,), nbytes, write)

    blobs = [on_device(f"w{number}", number) for number in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1)]
    blobs.insert(2, plain("large", make(PIECE + 3)))
    blobs.insert(5, on_device("w", PIECE + 5))
    blobs += [plain(f"s{number}", make(8 * number), dtype="F64") for number in range(1, 200)]
    return Snapshot(make(2 * BLOCK + 9), (*blobs, plain("data", make(3 * BLOCK + 1), changes="seldom")))


def _sums(path: Path) -> dict[str, str]:
    manifest = Manifest.from_json((path / MANIFEST).read_bytes())
    whole = {name: checksum((path / name).read_bytes()) for name in manifest.files}
    return whole | {blob.name: blob.checksum for blob in manifest.blobs}


def test_it_is_what_a_buffer_would_have_written(writer: Writer, directory: Path, tmp_path: Path) -> None:
    written: list[str] = []
    snapshot = _mixed(written)
    assert writer.streams(MiB)
    saving = writer.save(snapshot, about(1))
    assert saving.done() and writer.host_memory == 0  # the training stood still until it was durable
    assert sorted(written) == ["w", "w1", f"w{BLOCK - 1}", f"w{BLOCK}", f"w{BLOCK + 1}"]  # each copied once
    with newest(directory).opened or pytest.fail("it is not whole") as opened:
        assert_is(opened, snapshot)
    with writing(tmp_path / "others") as usual:
        assert not usual.streams(MiB)
        found = usual.save(snapshot, about(1)).result(PATIENCE).path
    assert _sums(found) == _sums(saving.result().path)


def test_old_ones_go_and_data_that_stays_the_same_is_linked(writer: Writer, directory: Path) -> None:
    data = plain("data", os.urandom(3 * MiB), changes="seldom")
    for step in range(3):
        saving = writer.save(Snapshot(b"", (plain("w", bytes([step])), data)), about(step))
        assert saving.result(PATIENCE).written < (4 if step == 0 else 1) * MiB
    writer.close()
    assert sorted(os.listdir(directory)) == ["000001-000002", "000001-000003"]
    assert os.stat(directory / "000001-000003" / "kept-000001-000001.safetensors").st_nlink == 2


def test_it_may_not_stand_still_for_longer_than_is_said(writer: Writer, directory: Path) -> None:
    with pytest.raises(TooLong) as caught:
        writer.save(training(1, MiB), about(1), longest=1e-6)
    assert caught.value.nbytes > MiB and caught.value.seconds > 1e-6
    assert not directory.exists() and not writer.busy
    writer.save(training(2, MiB), about(2), longest=60.0).result(PATIENCE)
    assert step_of(directory) == 2


def test_a_training_killed_in_the_middle_leaves_the_older_ones(directory: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from jupyter_gpufit.checkpoint import streaming
from jupyter_gpufit.checkpoint.checksum import PIECE
from jupyter_gpufit.checkpoint.values import Blob, Snapshot
from jupyter_gpufit.checkpoint.writer import Writer
from tests.checkpoint.snapshots import about, training
streaming.SIZE = PIECE
writer = Writer(Path({str(directory)!r}), 1, 3, free=lambda: {ROOM})
writer.save(training(1), about(1)).result()
last = Blob("last", "U8", (1,), 1, lambda view: os.kill(os.getpid(), signal.SIGKILL))  # in the second window
writer.save(Snapshot(b"", (*training(2, {2 * PIECE}).blobs, last)), about(2))
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2])
    assert ran.returncode == -signal.SIGKILL
    assert any(name.endswith(".tmp") for name in os.listdir(directory)) and step_of(directory) == 1
    with writing(directory) as writer:
        writer.save(training(3), about(3)).result(PATIENCE)
    assert sorted(os.listdir(directory)) == ["000001-000001", "000001-000002"] and step_of(directory) == 3


def test_a_process_that_writes_and_starts_meanwhile_leaves_it_alone(directory: Path) -> None:
    mine, killed = (directory / f".000001-000001.{pid}.ab12cd34.tmp" for pid in (os.getpid(), 4711))
    for path in (mine, killed):
        path.mkdir(parents=True)
    remove_leftovers(directory, os.getpid())
    assert mine.exists() and not killed.exists()


def test_what_fails_leaves_the_older_ones(writer: Writer, directory: Path) -> None:
    writer.save(training(1), about(1)).result(PATIENCE)

    def write(view: memoryview) -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    broken = training(2).blobs[1]
    with pytest.raises(NotSaved, match="illegal memory access.*tried as usual"):
        writer.save(Snapshot(b"", (type(broken)(**vars(broken) | {"write": write}),)), about(2)).result(PATIENCE)
    assert os.listdir(directory) == ["000001-000001"] and step_of(directory) == 1
