"""How a detached job's displays look in the widget that shows its output."""

from __future__ import annotations

from typing import Any

from ipywidgets import Output

from jupyter_gpufit.jobs.events import Clear, Display, Event, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.notebook.show import WidgetShow


def bar(text: str, *, update: bool = True, name: str = "bar") -> Display:
    return Display({"text/plain": text}, {}, {"display_id": name}, update)


def shown(*events: Event) -> list[Any]:
    output = Output()
    show = WidgetShow(output, Job(id="x", name="x", source="", created=0.0, cwd="/"), set())
    for event in events:
        show(event)
    return [one["data"]["text/plain"] if "data" in one else one["text"] for one in output.outputs]


def test_a_display_that_changes_stays_in_its_place() -> None:
    begun = bar("0 of 10", update=False)
    assert shown(begun, Text("stdout", "loss 1\n"), bar("9 of 10"), Text("stdout", "loss 2\n"), bar("all"))[:2] == [
        "all",
        "loss 1\n",
    ]
    assert shown(begun, bar("another", name="b", update=False), bar("all")) == ["all", "another"]


def test_what_was_cleared_away_comes_anew() -> None:
    assert shown(bar("half", update=False), Clear(), bar("all")) == ["all"]
