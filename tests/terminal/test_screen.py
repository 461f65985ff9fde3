"""Tables in the room that a terminal has, its colours, and what the keys of --watch do."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.actions import table
from jupyter_gpufit.actions.columns import columns
from jupyter_gpufit.actions.status import ClaimView, JobView, Status, TicketView
from jupyter_gpufit.jobs.events import Entry, Metrics, ProgressMark
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.terminal import colours
from jupyter_gpufit.terminal.braille import EMPTY, chart, curve
from jupyter_gpufit.terminal.watch import WatchScreen
from jupyter_gpufit.testing import fake_device
from tests.kernels import environment

ROWS = [
    ("", "waits", "job", "why"),
    ("1.", "ada (you)", "night-run", "bob's gnn has held GPU 1 (40.0 GiB) for 3 min 5 s; you are 1st of 2"),
    ("2.", "somebody-with-a-long-name", "b", "short"),
]


def test_a_table_has_all_the_room_it_takes_where_nobody_says_how_much_there_is() -> None:
    assert max(map(len, columns(ROWS).split("\n"))) > 80


def test_sentences_go_on_below_and_the_widest_cells_are_cut() -> None:
    fitted = columns(ROWS, 60).split("\n")
    assert "…" in fitted[-1] and fitted[-1].endswith("short")
    assert " ".join(line[26:].strip() for line in fitted[1:-1]).endswith("for 3 min 5 s; you are 1st of 2")
    narrow = columns(ROWS, 30).split("\n")
    assert narrow[0].split() == ["waits", "job"] and narrow[2].startswith("    bob's gnn has held")


def test_before_names_and_bars_are_cut_to_nothing_what_stands_last_goes_below() -> None:
    rows = [
        ("held by", "job", "device", "memory", "for", "what", "claim"),
        (
            "root (you)",
            "night-run",
            "CPU slot 0",
            "4.0 GiB alone",
            "3 min 28 s",
            "letters.ipynb",
            "c.1000.0123456789abcd",
        ),
    ]
    first, below = columns(rows, 80).split("\n")[1:]
    assert "…" not in first and first.endswith("letters.ipynb") and below.strip() == "c.1000.0123456789abcd"


def test_no_amount_is_cut_and_what_has_no_room_stands_below_with_its_head() -> None:
    rows = [
        ("device", "name", "memory", "left", "who"),
        ("0", "NVIDIA H100 80GB", "20.0 GiB of 80.0 GiB", "9.5 GiB", "ada"),
    ]
    for width in (40, 60, 80):
        shown = columns(rows, width)
        assert "20.0 GiB of 80.0 GiB" in shown and "9.5 GiB" in shown and shown.endswith("ada")
    assert columns(rows, 40).split("\n")[-1] == "    left 9.5 GiB  ada"


@given(st.lists(st.lists(st.text("ab c", max_size=30), min_size=3, max_size=3), min_size=1), st.integers(20, 90))
def test_no_line_is_longer_than_the_terminal_is_wide(rows: list[list[str]], width: int) -> None:
    assert all(len(line) <= width for line in columns(rows, width).split("\n"))


def view(state: State = "running", **more: object) -> JobView:
    given = {"id": "j1", "name": "bert", "reason": "", "since": 0.0, "created": 0.0, "pid": 1, "device": "cpu:0"}
    return JobView(**{**given, "state": state, "epoch": 1, "step": 3, "notebook": "", **more})  # type: ignore[arg-type]


def status(*jobs: JobView) -> Status:
    waits = TicketView("q", 1, "ada", True, "j2", "gnn", "", "4.0 GiB", 0.0, "held", "bob holds it", 60.0, 90.0)
    waits = replace(waits, expected="starts in 1 min to 1 min 30 s")
    return Status((fake_device(),), jobs, "", 100.0, queue=(waits,))


def test_colours_change_no_character_and_are_for_terminals_that_want_them() -> None:
    text = table.status(status(view(), view("lost", id="j2")), 100)
    shown = colours.coloured(text)
    assert re.sub(r"\x1b\[\d+m", "", shown) == text
    assert f"{colours.GREEN}running{colours.RESET}" in shown
    assert colours.wanted({"TERM": "xterm"}, tty=True)
    assert not colours.wanted({"TERM": "xterm", "NO_COLOR": "1"}, tty=True)
    assert not colours.wanted({"TERM": "dumb"}, tty=True) and not colours.wanted({}, tty=False)


def test_of_a_notebook_the_end_of_its_path_is_told_and_ones_own_home_in_a_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/lin")
    mine = ClaimView("c1", "lin", True, "j1", "bert", "/home/lin/bert.ipynb", ("0",), 1, False, 0.0, ())
    others = replace(mine, mine=False, label=f"/home/ada/{'deep/' * 10}tune.ipynb")
    command = replace(mine, label=f"python /home/lin/train.py {'--long ' * 10}")
    shown = table.status(replace(status(), claims=(mine, others, command)))
    assert "  ~/bert.ipynb  " in shown and "deep/tune.ipynb  " in shown and "  …" in shown
    assert "  python /home/lin/train.py --long" in shown


def test_the_queue_says_when_each_may_start() -> None:
    assert "in 1 min to 1 min 30 s" in table.queue(status())


def test_why_nobody_can_say_when_one_starts_is_not_cut() -> None:
    whole = status()
    unknown = "bob's gnn does not say how long it runs"
    for expected, why in (
        (f"start not known: {unknown}", f"bob holds it; start not known: {unknown}"),
        (f"starts in 5 min at the earliest: {unknown}", f"bob holds it; {unknown}"),
    ):
        waits = replace(whole.queue[0], expected=expected)
        shown = " ".join(table.queue(replace(whole, queue=(waits,)), 80).split())
        assert why in shown and ("in 5 min at the earliest" in shown) == ("earliest" in expected)


def test_a_curve_goes_from_its_first_to_its_last_point() -> None:
    drawn = curve([(float(at), float(at)) for at in range(100)], 10, 2)
    assert [len(line) for line in drawn] == [10, 10]
    assert ord(drawn[1][0]) - EMPTY & 0x40 and ord(drawn[0][9]) - EMPTY & 0x08  # bottom left, top right
    assert curve([], 10, 2) == ["", ""] and curve([(0.0, None)], 10, 1) == [""]
    assert len(set(curve([(0.0, 1.0), (5.0, 1.0)], 10, 1)[0])) == 1  # flat, and a line
    assert chart("loss", [(0.0, 2.0), (1.0, 1.0)], 20, 3, ("2", "1"))[0] == "loss"


class Reader:
    """A status that a test says."""

    def __init__(self, found: Status) -> None:
        self.found = found

    def read(self, settings: Settings) -> Status:
        return self.found


@pytest.fixture
def watch() -> WatchScreen:
    reader = Reader(status(view(), view(id="j2", name="gan"), view("done", id="j3")))
    made = WatchScreen(Settings(), reader=reader)  # type: ignore[arg-type]
    made.look()
    return made


def test_keys_choose_a_job_and_ask_before_a_verb(watch: WatchScreen) -> None:
    assert watch.chosen == "j2"  # the latest that has not ended
    watch.press("j")
    assert watch.chosen == "j1"
    watch.press("\x1b[A")
    assert watch.chosen == "j2"
    watch.press("s")
    assert watch.asking == "stop"
    assert "stop gan? y: yes" in watch._footer(80, colours=False)
    watch.press("n")
    assert watch.asking is None and watch.said == ""
    watch.press("q")
    assert watch.ended


def test_a_verb_that_cannot_be_is_refused_with_its_reason(watch: WatchScreen) -> None:
    assert watch.status is not None
    watch.reader.found = status(view("queued"))  # type: ignore[attr-defined]
    watch.look()
    watch.press("c")
    assert watch.asking is None and watch.said


def test_the_screen_is_filled_and_not_overfull(watch: WatchScreen, monkeypatch: pytest.MonkeyPatch) -> None:
    class Journal:
        def read(self) -> list[Entry]:
            return [Entry(n, float(n), Metrics(n, {"loss": 1 / (n + 1)})) for n in range(99)] + [
                Entry(100 + n, float(n), ProgressMark(n, n << 20, 9 << 20)) for n in range(99)
            ]

        def close(self) -> None: ...

    from jupyter_gpufit.jobs.curves import Curves

    watch._curves = {"j2": (Journal(), Curves())}  # type: ignore[dict-item]
    for width, height in ((120, 40), (80, 24), (30, 12)):
        lines = watch.lines(width, height, colours=False)
        assert len(lines) == height and max(map(len, lines)) <= width
    lines = watch.lines(120, 40, colours=False)
    assert any("loss 0.0101" in line and "memory 98.0 MiB" in line for line in lines)
    assert lines[-1].startswith("q quit")
    in_colours = watch.lines(120, 40, colours=True)
    assert any(re.search(f"{re.escape(colours.CYAN)}[⠁-⣿]", line) for line in in_colours)
    assert re.sub(r"\x1b\[\d+m", "", "\n".join(in_colours)) == "\n".join(lines)


@pytest.mark.slow
def test_watch_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment(tmp_path, TERM="xterm")
    command = [sys.executable, "-m", "jupyter_gpufit", "status", "--watch"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        shown = _until(ours, b"q quit")
        os.write(ours, b"q")
        shown += _until(ours, b"\x1b[?1049l")
        assert process.wait(timeout=60) == 0
    os.close(ours)
    assert shown.startswith(b"\x1b[?1049h") and b"cpu:0" in shown


def _until(fd: int, wanted: bytes) -> bytes:
    shown, until = b"", time.monotonic() + 60
    while wanted not in shown:
        assert select.select([fd], [], [], max(0.0, until - time.monotonic()))[0], shown
        shown += os.read(fd, 4096)
    return shown
