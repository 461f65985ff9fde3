"""The user's own files when a training goes on: it has what it had, and nobody loses what they wrote meanwhile."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.checkpoint.layout import lay_out
from jupyter_gpufit.checkpoint.publish import Publisher
from jupyter_gpufit.checkpoint.request import WriterRequest
from jupyter_gpufit.checkpoint.values import Snapshot
from jupyter_gpufit.checkpoint.windows import in_one
from jupyter_gpufit.errors import CannotArrive, WouldOverwrite
from jupyter_gpufit.graph import Reply, receive, ship
from jupyter_gpufit.snapshot import users_files
from jupyter_gpufit.snapshot.restore import restore
from jupyter_gpufit.snapshot.take import take
from jupyter_gpufit.snapshot.users_files import LeftFiles
from tests.checkpoint.snapshots import about
from tests.graph.crossing import defined, notebook

from .test_restore import Standing

LONG_AGO = 1e9  # seconds since 1970
MINE = "".join(f"mine {number}\n" for number in range(50))
THEIRS = "".join(f"theirs {number}\n" for number in range(400))


class Training:
    """A cell that was run, saved and left; `before`: an earlier cell, in the notebook."""

    def __init__(self, cell: str, before: str = "") -> None:
        self.there, self.notebook = notebook(""), notebook(before)
        self.shipment = ship(defined(self.notebook), self.notebook)
        arrival = receive(self.shipment.graph, self.shipment.memory, self.there)
        exec(cell, self.there)
        self.snapshot = take(Standing(self.there), arrival, self.there)
        self._bytes = [bytearray(blob.nbytes) for blob in self.snapshot.blobs]
        for blob, copy in zip(self.snapshot.blobs, self._bytes, strict=True):
            blob.write(memoryview(copy))

    @property
    def saved(self) -> int:
        """Bytes beside the graph."""
        return sum(map(len, self._bytes))

    def go_on(self, *, alive_until: float = 0.0) -> tuple[dict[str, Any], str]:
        """Its variables in another process, and what is said."""
        names: dict[str, Any] = {}

        def read(number: int, view: memoryview) -> None:
            view[:] = self._bytes[number]

        restored = restore(self.snapshot.graph, read, None, names, left=LeftFiles("first", alive_until))
        self.arrival = restored.arrival
        return names, "\n".join(restored.remarks)


# Files that are memory -----------------------------------------------------------------------------------------------


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """100,000 bytes that were there long before."""
    path = tmp_path / "data.bin"
    path.write_bytes(bytes(100_000))
    os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def need_telling_time(path: Path) -> None:
    if not users_files._time_tells(str(path.parent)):
        pytest.skip("THE FILE SYSTEM of the test's directory does not tell that a mapped file was written to")


def mapping(path: Path, then: str) -> str:
    return f"import numpy as np\ndata = np.memmap({str(path)!r}, np.uint8)\n{then}"


def test_data_that_is_only_read_is_not_saved_and_never_overwritten(data: Path) -> None:
    need_telling_time(data)
    left = Training(mapping(data, "total = int(data.sum())"))
    assert left.saved < 100_000 and left.snapshot.files == (str(data),)
    with data.open("r+b") as file:
        file.write(b"mended")

    there, said = left.go_on()

    assert data.read_bytes()[:6] == b"mended" == bytes(there["data"][:6])
    assert said == f"{data} was changed after the checkpoint, which has no copy of it: it stays as it is."


def test_data_that_nobody_touched_is_not_spoken_of(data: Path) -> None:
    need_telling_time(data)
    there, said = Training(mapping(data, "total = int(data.sum())")).go_on()
    assert there["data"].sum() == 0 and not said


def test_what_the_cell_wrote_is_put_back_over_what_it_wrote_later(data: Path) -> None:
    left = Training(mapping(data, "data[5] = 7"))
    assert left.saved >= 100_000
    left.there["data"][[5, 99_999]] = 8
    left.there["data"].flush()
    left.there["data"][6] = 9

    there, said = left.go_on(alive_until=time.time())

    found = data.read_bytes()
    assert (found[5], found[6], found[99_999]) == (7, 0, 0) and there["data"][5] == 7 and not said
    assert left.go_on()[1] == ""  # a second try: its own hand is not somebody else's


def test_what_others_wrote_is_only_overwritten_once_it_is_allowed(data: Path) -> None:
    left = Training(mapping(data, "data[5] = 7"))
    left.there["data"].flush()
    with data.open("r+b") as file:
        file.write(b"mended")

    with pytest.raises(WouldOverwrite, match="Somebody else has written to") as refused:
        left.go_on()

    assert data.read_bytes()[:6] == b"mended"
    subprocess.run(str(refused.value).split("resume again: ")[1], shell=True, check=True)
    there, _ = left.go_on()
    assert bytes(there["data"][:6]) == b"\0\0\0\0\0\7" == data.read_bytes()[:6]


def test_a_copy_in_its_place_is_somebody_elses(data: Path) -> None:
    left = Training(mapping(data, "data[5] = 7"))
    data.unlink()
    data.write_bytes(b"x" * 100_000)
    os.utime(data, (LONG_AGO, LONG_AGO))
    with pytest.raises(WouldOverwrite):
        left.go_on(alive_until=time.time())


def test_where_a_files_time_does_not_tell_its_bytes_are_saved(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users_files, "_time_tells", lambda directory: False)
    left = Training(mapping(data, "total = int(data.sum())"))
    assert left.saved >= 100_000


def test_the_time_of_a_file_in_tmpfs_does_not_tell() -> None:
    if not any(line.split()[1:3] == ["/dev/shm", "tmpfs"] for line in Path("/proc/mounts").read_text().splitlines()):
        pytest.skip("/dev/shm IS NO TMPFS here")
    assert not users_files._time_tells("/dev/shm")


def test_data_that_is_gone_is_named(data: Path) -> None:
    left = Training(mapping(data, "data[5] = 7"))
    data.unlink()
    with pytest.raises(CannotArrive, match=r"data\.bin.*Put it back, and resume again"):
        left.go_on()


# Logs ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "train.log"


def logging(log: Path, mode: str = "w") -> Training:
    """A training that has written its lines, and will write more."""
    left = Training(f"log = open({str(log)!r}, {mode!r}); log.write({MINE!r})")
    left.there["log"].close()
    return left


def goes_on(left: Training, **how: Any) -> str:
    there, said = left.go_on(**how)
    there["log"].write("and on\n")
    there["log"].close()
    return said


@pytest.mark.parametrize("mode", ["w", "a", "x", "w+", "a+"])
def test_lines_after_the_checkpoint_are_cut_off(log: Path, mode: str) -> None:
    left = logging(log, mode)
    with log.open("a") as file:
        file.write("lost\n")
    assert goes_on(left, alive_until=time.time()) == ""
    assert log.read_text() == MINE + "and on\n" and os.listdir(log.parent) == [log.name]


def test_a_log_that_was_renamed_goes_on_there_and_another_runs_log_is_left_alone(log: Path) -> None:
    left = logging(log)
    renamed = log.rename(log.with_name("first.log"))
    log.write_text(THEIRS)
    assert goes_on(left) == f"{log} has become {renamed}, and goes on there."
    assert renamed.read_text() == MINE + "and on\n" and log.read_text() == THEIRS


@pytest.mark.parametrize("alive", [False, True])
def test_another_runs_log_in_its_place_is_moved_aside(log: Path, alive: bool) -> None:
    left = logging(log)
    log.rename(log.parent.parent / f"{log.parent.name}.moved")
    log.write_text(THEIRS)
    (log.parent / "train.log.before-first").write_text("of an earlier time")
    aside = log.parent / "train.log.before-first-2"
    said = goes_on(left, alive_until=time.time() if alive else 0.0)
    assert f"that file is {aside} now" in said
    assert aside.read_text() == THEIRS and log.read_text() == "and on\n"


def test_lines_that_others_appended_are_kept_and_ours_goes_on_from_its_own(log: Path) -> None:
    left = logging(log, "a")
    with log.open("a") as file:
        file.write(THEIRS)
    assert "written to by somebody else" in goes_on(left)
    assert log.with_name("train.log.before-first").read_text() == MINE + THEIRS
    assert log.read_text() == MINE + "and on\n"


def test_a_log_that_another_run_wrote_over_is_theirs(log: Path) -> None:
    left = logging(log)
    log.write_text(THEIRS)  # the same file, cut and filled anew
    assert "written to by somebody else" in goes_on(left)
    assert log.with_name("train.log.before-first").read_text() == THEIRS and log.read_text() == "and on\n"


def test_a_second_try_finds_the_log_as_the_first_one_left_it(log: Path) -> None:
    left = logging(log)
    with log.open("a") as file:
        file.write("lost\n")
    left.go_on(alive_until=time.time())[0]["log"].close()
    assert goes_on(left) == "" and os.listdir(log.parent) == [log.name]


def test_a_log_that_a_power_cut_shortened_goes_on_at_its_end(log: Path) -> None:
    left = logging(log)
    log.write_text(MINE[:20])
    os.utime(log, (LONG_AGO, LONG_AGO))
    assert "has 20 of the 390 bytes of the checkpoint, and goes on at its end" in goes_on(left)
    assert log.read_text() == MINE[:20] + "and on\n"


def test_a_log_that_is_gone_is_begun_anew(log: Path) -> None:
    left = logging(log)
    log.unlink()
    assert goes_on(left) == f"{log} is gone, and is begun anew."
    assert log.read_text() == "and on\n"


@pytest.mark.parametrize("mode", ["r", "w+"])
def test_a_file_that_is_read_and_gone_is_named(log: Path, mode: str) -> None:
    log.write_text(MINE)
    left = Training(f"log = open({str(log)!r}, {mode!r})")
    log.unlink()
    left.there["log"].close()
    with pytest.raises(CannotArrive, match="Put it back, and resume again"):
        left.go_on()


def test_two_that_write_to_one_file_go_on_together(log: Path) -> None:
    left = Training(f"a = open({str(log)!r}, 'a'); b = open({str(log)!r}, 'a'); b.write('of b\\n'); a.write('of a\\n')")
    there, said = left.go_on()
    for name in ("a", "b"):
        left.there[name].close()
        there[name].write(f"more of {name}\n")
        there[name].close()
    assert log.read_text() == "of a\nof b\nmore of a\nmore of b\n" and not said


def test_the_notebooks_own_log_is_cut_back_too_and_is_then_where_the_resumed_training_left_it(log: Path) -> None:
    left = Training("log.write('one\\n')", before=f"log = open({str(log)!r}, 'w'); log.write('setup\\n')")
    left.there["log"].write("lost, and longer than what comes\n")
    left.there["log"].close()

    there, said = left.go_on(alive_until=time.time())
    there["log"].write("two\n")
    reply = left.arrival.reply()
    left.shipment.bring_back(Reply(reply.graph, reply.memory), left.notebook)
    there["log"].close()

    left.notebook["log"].write("after\n")
    left.notebook["log"].close()
    assert log.read_text() == "setup\none\ntwo\nafter\n" and not said


# To the disk ---------------------------------------------------------------------------------------------------------


def test_they_are_on_the_disk_before_a_checkpoint_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, directory = tmp_path / "train.log", tmp_path / "job" / "checkpoints"
    log.write_text(MINE)
    directory.parent.mkdir()
    done: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(fd: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    def renamed(source: Path, target: Path) -> None:
        done.append("published")
        rename(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    snapshot = Snapshot(b"", (), files=(str(tmp_path / "gone"), str(log)))
    layout = lay_out("000001-000001", snapshot, {}, ())
    request = WriterRequest.decode(WriterRequest.of("000001-000001", about(), 3, snapshot, layout, "").encode())

    Publisher(directory).publish(request, in_one(memoryview(bytearray(layout.nbytes))))

    when = done.index("published")
    assert {str(log), str(tmp_path), str(directory.parent)} <= set(done[:when])  # the last, since it was made just now
    assert done[when + 1 :] == [str(directory)]
