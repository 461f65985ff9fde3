"""Disks that are full, read-only, forbidden or limited: the failure is said, and everything else is as it was."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint.publish import Publisher
from jupyter_gpufit.checkpoint.refused import not_saved
from jupyter_gpufit.checkpoint.request import WriterAnswer
from jupyter_gpufit.checkpoint.writer import Writer
from jupyter_gpufit.checkpoint.writer_process import _publish
from jupyter_gpufit.errors import NotSaved
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, step_of, training, writing
from tests.disks import small_disk
from tests.people import ADA, PATIENCE, need_root

pytestmark = pytest.mark.slow


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "8m") as disk:
        yield disk


def _fails(writer: Writer, step: int, nbytes: int, why: str, remedy: str) -> None:
    before = sorted(os.listdir(writer.directory))
    with pytest.raises(NotSaved, match=f"{why}.*training goes on, and older checkpoints are as they were.*{remedy}"):
        writer.save(training(step, nbytes), about(step)).result(PATIENCE)
    assert sorted(os.listdir(writer.directory)) == before  # nothing half-written either


def test_a_full_disk(small_disk: Path) -> None:
    directory = small_disk / "checkpoints"
    with writing(directory) as writer:
        writer.save(training(1, 3 * MiB), about(1)).result(PATIENCE)
        _fails(writer, 2, 30 * MiB, "device: it needs .* MiB and .* MiB are free", "Free space there")
        assert step_of(directory) == 1
        (small_disk / "others").write_bytes(b"x" * 3 * MiB)
        _fails(writer, 3, 3 * MiB, "No space left on device", "Free space there")
        (small_disk / "others").unlink()
        writer.save(training(4, 3 * MiB), about(4)).result(PATIENCE)
    assert step_of(directory) == 4


def test_a_disk_that_becomes_read_only(small_disk: Path) -> None:
    directory = small_disk / "checkpoints"
    with writing(directory) as writer:
        writer.save(training(1), about(1)).result(PATIENCE)
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        _fails(writer, 2, MiB, "Read-only file system", "made writable")
        assert step_of(directory) == 1
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        writer.save(training(3), about(3)).result(PATIENCE)
    assert step_of(directory) == 3


def test_a_limit_on_the_size_of_files(tmp_path: Path) -> None:
    """As a quota does, it lets the file begin."""
    directory = tmp_path / "checkpoints"
    with writing(directory) as writer:
        writer.save(training(1), about(1)).result(PATIENCE)
        assert writer._process is not None
        pid = writer._process._process.pid
        unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE, (MiB, resource.RLIM_INFINITY))
        _fails(writer, 2, 3 * MiB, "File too large", "ulimit -f")
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        writer.save(training(3, 3 * MiB), about(3)).result(PATIENCE)
    assert step_of(directory) == 3


def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    """Root may write everywhere, so somebody else tries."""
    need_root()
    directory = tmp_path / "checkpoints"
    directory.mkdir(mode=0o700)
    with writing(directory) as writer:
        request, layout = writer._lay_out(training(1), about(1))
        writer._staging.reserve(layout.nbytes)
        reading, answering = os.pipe()
        child = os.fork()
        if not child:
            os.setgid(ADA)
            os.setuid(ADA)
            os.write(answering, _publish(Publisher(directory), request, writer._staging.fd).encode())
            os._exit(0)
        os.waitpid(child, 0)
        os.close(answering)
        answer = WriterAnswer.decode(os.read(reading, 4096))
        os.close(reading)
    assert answer.errno == errno.EACCES and "chmod u+rwx" in str(not_saved(directory, answer))


@pytest.mark.parametrize(("number", "remedy"), [(errno.EDQUOT, "quota is used up"), (errno.EIO, "disk may be failing")])
def test_what_to_do_is_said(number: int, remedy: str, tmp_path: Path) -> None:
    said = str(not_saved(tmp_path, WriterAnswer(os.strerror(number), number)))
    assert os.strerror(number) in said and remedy in said and "GPUFIT_DATA" in said
