"""The training's side: short pauses, one checkpoint at a time, and a training that goes on whatever happens."""

from __future__ import annotations

import array
import fcntl
import os
import pickle
import select
import signal
import subprocess
import sys
import termios
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from jupyter_gpufit.checkpoint import writer as writer_module
from jupyter_gpufit.checkpoint.files import newest
from jupyter_gpufit.checkpoint.values import Blob, Snapshot
from jupyter_gpufit.checkpoint.writer import TooSmall, Writer
from jupyter_gpufit.errors import NotSaved, TakenOver
from jupyter_gpufit.units import MiB
from tests.checkpoint.snapshots import about, assert_is, copied, step_of, training, writing
from tests.people import PATIENCE

pytestmark = pytest.mark.slow  # each starts the process that writes


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints"


def _signal(writer: Writer, number: signal.Signals) -> None:
    assert writer._process is not None
    os.kill(writer._process._process.pid, number)


def _until_asked(writer: Writer) -> None:
    """Wait until the request is in the channel to a process that was stopped and does not read it."""
    assert writer._process is not None
    waiting = array.array("i", [0])
    deadline = time.monotonic() + PATIENCE
    while not waiting[0]:
        fcntl.ioctl(writer._process._channel.fileno(), termios.TIOCOUTQ, waiting)
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_the_process_that_writes_imports_no_torch() -> None:
    code = "import sys, jupyter_gpufit.checkpoint.writer_process; print(*(m.split('.')[0] for m in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "numpy", "IPython", "anyio", "psutil"} & set(loaded)


def test_the_training_goes_on_while_it_is_written_and_a_second_save_waits(directory: Path) -> None:
    with writing(directory) as writer:
        assert not writer.busy
        _signal(writer, signal.SIGSTOP)  # a disk that takes its time
        first = writer.save(training(1), about(1))
        assert writer.busy and not first.done() and first.waited < 1

        second: list[writer_module.Saving] = []
        saver = threading.Thread(target=lambda: second.append(writer.save(training(2), about(2))))
        saver.start()
        saver.join(0.2)
        assert saver.is_alive() and newest(directory).opened is None

        _signal(writer, signal.SIGCONT)
        assert first.result(PATIENCE).about.step == 1
        saver.join(PATIENCE)
        assert second[0].result(PATIENCE).about.step == 2 and second[0].waited >= 0.15
        assert not writer.busy
    assert step_of(directory) == 2


def test_later_changes_of_the_training_are_not_in_it(directory: Path) -> None:
    data = bytearray(b"before")

    def write(view: memoryview) -> None:
        view[:] = data

    with writing(directory) as writer:
        _signal(writer, signal.SIGSTOP)
        saving = writer.save(Snapshot(b"", (Blob("w", "U8", (6,), 6, write),)), about())
        data[:] = b"behind"
        _signal(writer, signal.SIGCONT)
        saving.result(PATIENCE)
    opened = newest(directory).opened
    assert_is(opened, Snapshot(b"", (copied("w", b"before"),)))
    assert opened is not None
    opened.close()


def test_the_buffer_is_kept_and_grows_beside_the_training(directory: Path) -> None:
    with writing(directory) as writer:
        assert writer.host_memory == 0
        writer.prepare(MiB)
        writer.save(training(1), about(1), in_place=False).result(PATIENCE)
        small, larger = writer.host_memory, training(2, 130 * MiB)
        with pytest.raises(TooSmall) as caught:
            writer.save(larger, about(2), in_place=False)
        making = writer.prepare(caught.value.nbytes)
        assert making is not None
        making.join(PATIENCE)
        large = writer.save(larger, about(2), in_place=False)
        assert large.result(PATIENCE) and 0 < small < large.copied <= writer.host_memory < 200 * MiB
        writer.save(training(3), about(3)).result(PATIENCE)
        assert writer.host_memory > 130 * MiB
    assert writer.host_memory == 0 and step_of(directory) == 3


def test_where_not_even_a_window_finds_memory_it_is_said(directory: Path) -> None:
    free = [MiB]
    with closing(Writer(directory, 1, 3, free=lambda: free[0])) as writer:
        with pytest.raises(NotSaved, match=r"needs 128\.\d MiB more of the host's memory and 1.0 MiB are free"):
            writer.save(training(1), about(1)).result(PATIENCE)
        free[0] = 100 * MiB
        writer.save(training(2), about(2)).result(PATIENCE)
    assert step_of(directory) == 2


def test_a_killed_writer_costs_one_checkpoint(directory: Path) -> None:
    with writing(directory) as writer:
        writer.save(training(1), about(1)).result(PATIENCE)
        _signal(writer, signal.SIGSTOP)
        lost = writer.save(training(2), about(2))
        _until_asked(writer)
        _signal(writer, signal.SIGKILL)
        with pytest.raises(NotSaved, match="ended with signal 9.*The training goes on"):
            lost.result(PATIENCE)
        assert step_of(directory) == 1
        writer.save(training(3), about(3)).result(PATIENCE)  # by a new one
    assert step_of(directory) == 3


def test_bytes_that_cannot_be_had_are_the_callers_error_and_the_next_save_works(directory: Path) -> None:
    def write(view: memoryview) -> None:
        raise RuntimeError("CUDA error: an illegal memory access")

    with writing(directory) as writer:
        with pytest.raises(RuntimeError, match="illegal memory access"):
            writer.save(Snapshot(b"", (Blob("w", "U8", (1,), 1, write),)), about())
        assert not writer.busy
        writer.save(training(2), about(2)).result(PATIENCE)


def test_an_automatic_checkpoint_gives_way_and_the_next_does_not(directory: Path) -> None:
    with writing(directory) as writer:
        for step, automatic in ((1, True), (2, False)):
            writer.save(training(step), about(step, automatic=automatic)).result(PATIENCE)
        assert writer._process is not None
        assert os.getpriority(os.PRIO_PROCESS, writer._process._process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    assert step_of(directory) == 2


def test_a_writer_whose_job_has_a_later_worker_publishes_nothing(directory: Path) -> None:
    directory.mkdir(parents=True)
    epoch = directory.parent / "epoch"
    epoch.write_text("1")
    with writing(directory) as old:
        old.save(training(1), about(1)).result(PATIENCE)
        _signal(old, signal.SIGSTOP)  # frozen in the middle of its life
        late = old.save(training(2), about(2))
        epoch.write_text("2")
        with writing(directory, epoch=2) as new:
            new.save(training(3), about(3, epoch=2)).result(PATIENCE)
        _signal(old, signal.SIGCONT)
        with pytest.raises(TakenOver, match="worker 2 of this job has taken over, and this is worker 1") as caught:
            late.result(PATIENCE)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert sorted(os.listdir(directory)) == ["000001-000001", "000002-000001"]  # nothing half-written either


def test_what_a_killed_writer_left_is_removed_and_nothing_else(directory: Path) -> None:
    left = directory / ".000001-000003.4711.ab12cd34.tmp"
    mine = [directory / ".notes.tmp", directory / "000001-000001.tmp", directory / ".000001-000002.7.zz.tmp"]
    for path in (left, *mine):
        path.mkdir(parents=True)
        (path / "state.safetensors").write_text("half")
    outside = directory.parent / "precious"
    outside.mkdir()
    link = directory / ".000001-000004.4711.ab12cd34.tmp"
    link.symlink_to(outside)
    with writing(directory) as writer:
        writer.save(training(1), about(1)).result(PATIENCE)
    assert not left.exists() and outside.exists() and all(path.exists() for path in mine)


def test_the_process_ends_with_a_killed_training_but_finishes_what_was_asked(directory: Path, tmp_path: Path) -> None:
    """Also when a forked child of the training, a worker of a DataLoader, still holds its descriptors."""
    code = f"""
import os, signal
from pathlib import Path
from jupyter_gpufit.checkpoint.writer import TooSmall, Writer
from tests.checkpoint.snapshots import about, training
from tests.checkpoint.test_writer import _until_asked
writer = Writer(Path({str(directory)!r}), 1, 3)
child = os.fork()
if not child:
    os.close(1)  # or the test would wait for its end
    signal.pause()
writer.save(training(0), about(0)).result()
pid = writer._process._process.pid
os.kill(pid, signal.SIGSTOP)
writer.save(training(1, {20 * MiB}), about(1))
_until_asked(writer)
print(pid, child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ran = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])
    assert ran.returncode == -signal.SIGKILL
    pid, child = map(int, ran.stdout.split())
    fd = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGCONT)
        _until_ended(fd)
    finally:
        os.close(fd)
        os.kill(child, signal.SIGKILL)
    assert step_of(directory) == 1


def _until_ended(fd: int) -> None:
    assert select.select([fd], [], [], PATIENCE)[0], "the process that writes did not end with the training"


def test_closing_waits_for_what_is_being_written(directory: Path) -> None:
    writer = Writer(directory, 1, 3)
    saving = writer.save(training(1, 20 * MiB), about(1))
    writer.close()
    writer.close()
    assert saving.done() and step_of(directory) == 1


def test_a_save_while_the_directory_of_the_job_is_gone(tmp_path: Path) -> None:
    with writing(tmp_path / "gone" / "checkpoints") as writer:
        with pytest.raises(NotSaved, match="No such file or directory"):
            writer.save(training(1), about(1)).result(PATIENCE)


def test_a_process_that_cannot_be_started_is_told_by_its_name(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with writing(directory) as writer:
        writer.save(training(1), about(1)).result(PATIENCE)
        assert writer._process is not None
        _signal(writer, signal.SIGKILL)
        writer._process._process.wait(PATIENCE)
        monkeypatch.setattr(sys, "executable", "/not/there/python")
        why = r"could not be started: No such file or directory \(/not/there/python\).*training goes on"
        with pytest.raises(NotSaved, match=why):
            writer.save(training(2), about(2)).result(PATIENCE)
        monkeypatch.undo()
        writer.save(training(3), about(3)).result(PATIENCE)
    assert step_of(directory) == 3
