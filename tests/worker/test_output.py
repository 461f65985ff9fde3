"""Everything a cell can write with, really written: fds, C, threads, children."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest
from tqdm import tqdm

from jupyter_gpufit.units import KiB, MiB
from jupyter_gpufit.worker.output import BACKLOG, Event, Output, WrittenText
from tests.worker.seen import run_alone

LIBC = ctypes.CDLL(None)


class Seen:
    """What was emitted."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, batch: list[Event]) -> None:
        self.events += batch

    def merged(self) -> list[Event]:
        """As if all had come in one batch."""
        merged: list[Event] = []
        for event in self.events:
            last = merged[-1] if merged else None
            if isinstance(event, WrittenText) and isinstance(last, WrittenText) and event.name == last.name:
                merged[-1] = WrittenText(event.name, last.text + event.text)
            else:
                merged.append(event)
        return merged

    def text(self, name: str) -> str:
        return "".join(event.text for event in self.events if isinstance(event, WrittenText) and event.name == name)


@contextlib.contextmanager
def captured() -> Iterator[Seen]:
    """Not a fixture: between a fixture and its test, pytest exchanges the fds itself."""
    seen = Seen()
    with Output(seen.emit).captured():
        yield seen


def test_what_is_written_aside_goes_to_the_log(tmp_path: Path) -> None:
    seen = Seen()
    with Output(seen.emit, log=tmp_path / "log").captured() as output:
        sys.stdout.write("before\n")
        with output.aside():
            sys.stdout.write("again\n")
            os.write(2, b"and below\n")
            output.put("a note")
        sys.stdout.write("after\n")

    assert seen.text("stdout") == "before\nafter\n" and seen.text("stderr") == "" and "a note" in seen.events
    assert (tmp_path / "log").read_text() == "again\nand below\n"


def show(text: str, file: TextIO | None = None) -> None:
    (file or sys.stdout).write(text)


def test_keeps_the_order_of_all_that_one_thread_writes() -> None:
    seen, expected = Seen(), Seen()
    output = Output(seen.emit)
    with output.captured():
        for number in range(50):
            show(f"{number}a\n")
            LIBC.printf(b"%db\n", number)
            os.write(1, b"c\n")
            output.put(number)
            show("d\n", sys.stderr)
            os.write(2, b"e\n")
            sys.stdout.buffer.write(b"f\n")
            expected.emit([WrittenText("stdout", f"{number}a\n{number}b\nc\n"), number])
            expected.emit([WrittenText("stderr", "d\ne\n"), WrittenText("stdout", "f\n")])

    assert seen.merged() == expected.merged()


def test_takes_what_a_child_process_writes() -> None:
    with captured() as seen:
        show("before\n")
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
        show("after\n")

    assert seen.text("stdout") == "before\nout\nafter\n"
    assert seen.text("stderr") == "err\n"


def test_shows_a_c_line_without_any_python_write() -> None:
    came = threading.Event()
    seen = Seen()

    def emit(batch: list[Event]) -> None:
        seen.emit(batch)
        came.set()

    with Output(emit).captured():
        LIBC.puts(b"from C")
        assert came.wait(300)

    assert seen.events == [WrittenText("stdout", "from C\n")]


def test_flush_emits_all_that_was_written_before_it() -> None:
    seen = Seen()
    output = Output(seen.emit)
    with output.captured():
        show("Epoch 1: ")
        LIBC.printf(b"50 %%")  # an unfinished line, which C holds back until then
        output.flush()

        assert seen.text("stdout") == "Epoch 1: 50 %"


def test_many_writes_become_few_events() -> None:
    with captured() as seen:
        for number in range(2000):
            show(f"{number}\n")

    assert seen.text("stdout") == "".join(f"{number}\n" for number in range(2000))
    assert len(seen.events) < 200


def test_leaves_progress_bars_as_they_are() -> None:
    with captured() as seen:
        for _ in tqdm(range(3), position=0):
            pass

    assert seen.text("stderr").startswith("\r  0%|")
    assert "\r100%|" in seen.text("stderr")


def test_survives_bytes_that_are_no_text() -> None:
    with captured() as seen:
        os.write(1, b"\xff\xfe\n")
        sys.stdout.buffer.write(b"\x80 and on\n")
        show("\ud800\n")

    assert seen.text("stdout") == "\\xff\\xfe\n\\x80 and on\n\\ud800\n"


def test_a_character_cut_in_pieces_comes_whole() -> None:
    seen = Seen()
    output = Output(seen.emit)
    with output.captured():
        for byte in "🙂".encode():
            os.write(1, bytes([byte]))
            output.flush()
        assert seen.events == [WrittenText("stdout", "🙂")]
        os.write(1, "🙂".encode()[:2])

    assert seen.text("stdout") == "🙂\\xf0\\x9f"


def test_looks_like_any_standard_stream() -> None:
    with captured():
        assert isinstance(sys.stdout, io.TextIOBase)
        stdout: Any = sys.__dict__["stdout"]  # with more attributes than its declared type
        assert (stdout.fileno(), sys.stderr.fileno()) == (1, 2)
        assert (stdout.name, stdout.encoding, stdout.isatty()) == ("<stdout>", "utf-8", False)
        assert stdout.writable() and not stdout.readable() and not stdout.closed
        assert stdout.write("four") == 4
        assert stdout.buffer.write(memoryview(b"12345678").cast("I")) == 8
        stdout.writelines(["a", "b"])
        stdout.reconfigure(encoding="utf-8")
        with pytest.raises(TypeError, match="must be str, not int"):
            stdout.write(4)


def test_goes_on_when_the_cell_closes_a_stream() -> None:
    with captured() as seen:
        sys.stdout.close()
        show("still here\n")

    assert seen.text("stdout") == "still here\n"


@pytest.mark.slow
def test_puts_everything_back() -> None:
    out, _ = run_alone(
        """
        output.stop()
        def world():
            places = [(os.fstat(fd).st_dev, os.fstat(fd).st_ino) for fd in (1, 2)]
            return sys.stdout, sys.stderr, sorted(os.listdir("/proc/self/fd")), places, threading.active_count()

        before = world()
        for number in range(3):
            with output.captured():
                sys.stdout.write(f"{number}\\n")
        assert world() == before, (world(), before)
        """
    )

    assert out == "0\n1\n2\n"


def test_can_be_stopped_twice_and_started_again() -> None:
    seen = Seen()
    output = Output(seen.emit)
    for _ in range(2):
        output.start()
        show("x")
        output.stop()
        output.stop()

    assert seen.text("stdout") == "xx"


def test_keeps_the_lines_of_every_thread() -> None:
    def write(thread: int) -> None:
        for number in range(200):
            show(f"{thread} {number}\n")
            if number % 50 == 0:
                os.write(1, f"{thread} C\n".encode())

    with captured() as seen:
        threads = [threading.Thread(target=write, args=(thread,)) for thread in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    lines = seen.text("stdout").splitlines()
    for one in range(6):
        own = [line for line in lines if line.startswith(f"{one} ") and not line.endswith("C")]
        assert own == [f"{one} {number}" for number in range(200)]
    assert len(lines) == 6 * 204


def test_a_failing_journal_stops_neither_the_cell_nor_later_output(tmp_path: Path) -> None:
    seen = Seen()
    failing = True

    def emit(batch: list[Event]) -> None:
        if failing:
            raise OSError(28, "No space left on device")
        seen.emit(batch)

    output = Output(emit, log=tmp_path / "log")
    with output.captured():
        show("lost\n")
        output.flush()
        failing = False
        show("kept\n")

    assert seen.text("stdout") == "kept\n"
    assert isinstance(output.failure, OSError)
    assert "No space left" in (tmp_path / "log").read_text()


def test_the_journal_may_itself_print() -> None:
    said: list[str] = []

    def emit(batch: list[Event]) -> None:
        said.extend(event.text for event in batch if isinstance(event, WrittenText))
        if len(said) == 1:
            show("from emit\n")
            output.flush()

    output = Output(emit)
    with output.captured():
        show("from the cell\n")
        output.flush()

    assert said == ["from the cell\n", "from emit\n"]


def test_our_own_log_is_apart_from_the_cells_output(capfd: pytest.CaptureFixture[str]) -> None:
    seen = Seen()
    output = Output(seen.emit)
    with output.captured():
        output.log.write("ours\n")
        show("theirs\n", sys.stderr)

    assert capfd.readouterr().err == "ours\n"
    assert seen.text("stderr") == "theirs\n"


def test_a_child_that_lives_on_does_not_hold_up_the_end() -> None:
    with captured():
        child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)

    child.communicate()
    assert child.returncode == 0


@pytest.mark.slow
def test_nothing_wakes_while_nothing_is_written() -> None:
    def switches() -> list[str]:
        tasks = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("gpufit-")]
        statuses = [Path(f"/proc/self/task/{task}/status").read_text() for task in tasks]
        return [line for status in statuses for line in status.splitlines() if line.startswith("voluntary")]

    with captured():
        until = time.monotonic() + 60
        before: list[str] = [""]
        after: list[str] = []
        while before != after:  # until both threads have come to rest
            assert time.monotonic() < until, (before, after)
            before = switches()
            select.select([], [], [], 0.6)  # in which a thread that wakes now and then does so, on a busy machine too
            after = switches()

    assert len(before) == 2


@pytest.mark.slow
@pytest.mark.parametrize("write", [lambda text: sys.stdout.write(text), lambda text: os.write(1, text.encode())])
def test_a_50_mb_print_arrives_in_parts(write: Callable[[str], object]) -> None:
    with captured() as seen:
        write("x" * (50 * MiB))

    assert len(seen.text("stdout")) == 50 * MiB
    assert max(len(event.text) for event in seen.events if isinstance(event, WrittenText)) <= MiB


@pytest.mark.slow
def test_writers_wait_for_a_slow_journal() -> None:
    backlogs: list[int] = []

    def emit(batch: list[Event]) -> None:
        backlogs.append(output._added - output._emitted)

    output = Output(emit)
    with output.captured():
        for _ in range(1000):
            show("x" * (64 * KiB))

    assert BACKLOG / 2 < max(backlogs) < BACKLOG + 2 * MiB
