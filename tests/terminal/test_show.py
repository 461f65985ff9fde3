"""How a job's displays look in a terminal: one that changes is written over itself."""

from __future__ import annotations

import io

from jupyter_gpufit.jobs.events import Display, Event, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.terminal.show import TerminalShow


def bar(text: str, *, update: bool = True, name: str = "bar") -> Display:
    return Display({"text/plain": text}, {}, {"display_id": name}, update)


def written(*events: Event) -> str:
    out = io.StringIO()
    show = TerminalShow(Job(id="x", name="x", source="", created=0.0, cwd="/"), out, out)
    for event in events:
        show(event)
    return out.getvalue()


def test_a_bar_is_written_over_itself() -> None:
    assert written(bar("0 of 10", update=False), bar("9 of 10"), bar("all")) == "0 of 10\r9 of 10\rall    "


def test_what_comes_after_a_bar_has_a_line_of_its_own() -> None:
    shown = written(bar("half", update=False), Text("stdout", "loss 1\n"), bar("all"), Text("stderr", "end\n"))
    assert shown == "half\nloss 1\nall\nend\n"


def test_two_bars_do_not_write_over_each_other() -> None:
    shown = written(bar("outer 0", update=False), bar("inner 0", update=False, name="inner"), bar("outer 1"))
    assert shown == "outer 0\ninner 0\nouter 1"


def test_a_table_that_changes_is_written_anew() -> None:
    assert written(bar("a\nb", update=False), bar("a\nc")) == "a\nb\na\nc\n"
