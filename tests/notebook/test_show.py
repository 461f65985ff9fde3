"""How a detached job's displays look in the widget that shows its output."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from ipywidgets import Output

from jupyter_gpufit.jobs.events import Clear, Display, Event, Failure, Note, ProgressMark, StateChange, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.notebook import saved
from jupyter_gpufit.notebook.saved import MOST, Likeness, Still, html_of
from jupyter_gpufit.notebook.show import NotebookShow, WidgetShow, WidgetsOfJob
from jupyter_gpufit.units import GiB

LINE = {"output_type": "stream", "name": "stdout", "text": "a line"}


def bar(text: str, *, update: bool = True, name: str = "bar") -> Display:
    return Display({"text/plain": text}, {}, {"display_id": name}, update)


def shown(*events: Event) -> list[Any]:
    outputs = apart(*events)._outputs.all()
    return [one["data"]["text/plain"] if "data" in one else one["text"] for one in outputs]


def test_a_display_that_changes_stays_in_its_place() -> None:
    begun = bar("0 of 10", update=False)
    assert shown(begun, Text("stdout", "loss 1\n"), bar("9 of 10"), Text("stdout", "loss 2\n"), bar("all"))[:2] == [
        "all",
        "loss 1\nloss 2\n",
    ]
    assert shown(begun, bar("another", name="b", update=False), bar("all")) == ["all", "another"]


def test_what_was_cleared_away_comes_anew() -> None:
    assert shown(bar("half", update=False), Clear(), bar("all")) == ["all"]


def test_how_it_is_stands_in_one_line_that_changes() -> None:
    began, ran = StateChange("queued"), StateChange("running", device="cpu:0")
    assert shown(began, Text("stdout", "loss 1\n"), ran) == ["▶ x: running on cpu:0", "loss 1\n"]
    assert shown(began, Text("stdout", "loss 1\n"), Clear(), Note("said"), ran) == ["▶ x: running on cpu:0", "said"]


def test_what_this_machine_was_told_once_is_told_no_more() -> None:
    assert shown(Note("old", once=True), Note("new", once=True), Note("old"))[:2] == ["new", "old"]


def test_an_error_is_told_once() -> None:
    failed = Failure("ValueError", "no", ("ValueError: no",))
    assert "ValueError" not in shown(failed, StateChange("failed", "ValueError: no"))[-1]
    lost = StateChange("lost", "its worker is gone")
    assert shown(lost) == ["✗ x: lost · its worker is gone"]


def test_what_a_saved_file_has_of_it_is_what_was_left_on_the_screen() -> None:
    picture = {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}}
    lines = {"output_type": "stream", "text": "0 %\r50 %\r9 %\nloss < 1\n"}
    assert html_of([lines, picture]) == '<pre>9 %%\nloss &lt; 1\n</pre><img src="data:image/png;base64,AAAA">'


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Each display as it went out: its data, and the marks on it."""
    found: list[dict[str, Any]] = []

    def publish(data: dict[str, Any], metadata: dict[str, Any], **said: Any) -> None:
        found.append({"text": data["text/plain"], "html": data["text/html"], **metadata.get("gpufit", {}), **said})

    monkeypatch.setattr(saved, "publish_display_data", publish)
    return found


def apart(*events: Event) -> WidgetShow:
    """A detached job's output, after these."""
    job = Job(id="x", name="x", source="", created=0.0, cwd="/")
    show = WidgetShow(Output(), job, lambda text: text != "old", WidgetsOfJob(job, JobPaths(Path("/nowhere"))))
    for event in events:
        show(event)
    return show


def test_what_was_written_in_pieces_reads_as_one(published: list[dict[str, Any]]) -> None:
    pieces = [Text("stdout", piece) for piece in ("loss ", "1\n", "0 %", "\r50 %", "\r100 %\n")]
    apart(*pieces, Text("stderr", "careful\n"), StateChange("released"))
    assert published[-1]["text"].startswith("loss 1\n100 %\ncareful\n")
    assert published[-1]["html"].startswith("<pre>loss 1\n100 %\n</pre><pre>careful\n</pre>")


def test_its_text_is_its_output_and_tells_an_error_once(published: list[dict[str, Any]]) -> None:
    failure = Failure("ValueError", "no", ("ValueError: no",))
    apart(Text("stdout", "0 %\r9 %\n"), failure, StateChange("failed", "ValueError: no"))
    assert published[0]["text"] == "… x: starting"
    assert published[-1]["text"].startswith("9 %\nValueError: no\n✗ x: failed")
    assert published[-1]["text"].count("ValueError") == published[-1]["html"].count("ValueError") == 1


def test_between_two_changes_of_state_it_is_told_aside_for_the_file(
    published: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saved, "EVERY", 0.0)
    monkeypatch.setattr(saved, "PER_SECOND", float("inf"))
    apart(StateChange("running", device="cpu:0"), Text("stdout", "loss 1\n"), ProgressMark(7, GiB, GiB))
    drawn, aside = published[1], published[-1]
    assert "aside" not in drawn and aside["aside"] and aside["output"] and aside["update"]
    assert aside["text"].startswith("▶ x: running on cpu:0 · step 7 · ") and aside["text"].endswith("\nloss 1")
    assert "<pre>loss 1\n</pre>" in aside["html"] and "step 7" in aside["html"]
    assert aside["transient"] != drawn["transient"]  # or a page would draw the widget anew


def test_what_is_told_aside_comes_seldom_and_a_long_one_more_so() -> None:
    looks = iter([Likeness("", "short", {}), Likeness("", "x" * int(saved.PER_SECOND * 60), {}), Likeness("", "", {})])
    still, told = Still(Output(), "x"), []

    def look() -> Likeness:
        told.append(next(looks))
        return told[-1]

    still.tell(look, 1.0)
    assert not told  # nothing stands there yet
    still.show(Likeness("", "", {}))
    for now in (1.0, 1.0 + saved.EVERY / 2, 1.0 + saved.EVERY, 30.0, 60.0):
        still.tell(look, now)
    assert len(told) == 2
    still.renew(look)  # and nothing is told later


def time_has_come(still: Still) -> None:
    """For the rest of a burst."""
    timer = still._later
    assert timer is not None
    timer.cancel()
    timer.function(*timer.args)


def test_the_rest_of_a_burst_is_told_aside_when_its_time_has_come(published: list[dict[str, Any]]) -> None:
    show = apart(StateChange("running"), *[Text("stdout", f"loss {at}\n") for at in range(9)])
    time_has_come(show._still)
    assert [one["text"].split("\n")[-1] for one in published if "aside" in one] == ["loss 0", "loss 8"]


def test_no_older_look_is_told_after_a_later_one(published: list[dict[str, Any]]) -> None:
    """The burst's rest looks while the job ends, and comes to tell it when the end is told."""
    still, running, done = Still(Output(), "x"), Likeness("running", "", {}), Likeness("done", "", {})

    def look_slowly() -> Likeness:
        still.renew(lambda: done)
        return running

    still.show(running)
    still.tell(lambda: running, 1.0)
    still.tell(look_slowly, 1.5)
    time_has_come(still)
    assert published[-1]["text"] == "done" and len(published) == 3
    still.tell(look_slowly, 60.0)
    assert published[-1]["text"] == "done" and len(published) == 4


def test_what_comes_while_the_rest_of_a_burst_is_told_is_told_after_it(published: list[dict[str, Any]]) -> None:
    still = Still(Output(), "x")

    def look() -> Likeness:
        still.tell(lambda: Likeness("next", "", {}), 1.9)
        return Likeness("rest", "", {})

    still.show(Likeness("", "", {}))
    still.tell(lambda: Likeness("", "", {}), 1.0)
    still.tell(look, 1.5)
    time_has_come(still)
    time_has_come(still)
    assert [one["text"] for one in published[-2:]] == ["rest", "next"]


def test_a_look_that_fails_in_the_background_is_nobodys_error(published: list[dict[str, Any]]) -> None:
    still = Still(Output(), "x")
    still.show(Likeness("running", "", {}))
    still.tell(lambda: Likeness("running", "", {}), 1.0)
    still.tell(lambda: Likeness("", 1 / 0, {}), 1.5)  # type: ignore[arg-type]
    time_has_come(still)
    still.tell(lambda: Likeness("on", "", {}), 60.0)
    assert published[-1]["text"] == "on"


def test_of_a_long_output_the_end_is_kept() -> None:
    kept = html_of([{"output_type": "stream", "text": "x" * MOST + "the end"}, *[LINE] * 9])
    assert kept.startswith("<pre>…</pre>") and kept.count("a line") == 9 and "the end" in kept and len(kept) < 2 * MOST


def test_what_can_be_typed_is_set_apart() -> None:
    show = apart(Note("a < b: `gpufit status`"))
    assert "a &lt; b: <code>gpufit status</code></div>" in show._outputs.all()[-1]["data"]["text/html"]


def test_what_is_captured_is_the_cells_own() -> None:
    captured: Any = SimpleNamespace(display_pub=CapturingDisplayPublisher())  # as %%capture has it
    job, paths = Job(id="x", name="x", source="", created=0.0, cwd="/"), JobPaths(Path("/nowhere"))
    show = NotebookShow(captured, job, paths, lambda text: True, WidgetsOfJob(job, paths))
    for event in (StateChange("queued"), bar("9 of 10", update=False), StateChange("done")):
        show(event)
    assert [one["data"]["text/plain"] for one in captured.display_pub.outputs] == ["9 of 10"]


class Page:
    """What a browser has of a cell's output, after what a kernel publishes."""

    def __init__(self) -> None:
        self.outputs: list[tuple[str, str]] = []  # the name of a display, and its text
        self._clears = False

    def publish(self, data: dict[str, Any], metadata: Any, *, transient: dict[str, str], update: bool = False) -> None:
        name, text = transient.get("display_id", ""), data["text/plain"]
        if update:
            self.outputs = [(one, text if one == name else before) for one, before in self.outputs]
            return
        if self._clears:
            self.clear_output()
        self.outputs.append((name, text))

    def clear_output(self, wait: bool = False) -> None:
        self.outputs, self._clears = (self.outputs if wait else []), wait


RAN, ENDED = StateChange("running", device="cpu:0"), StateChange("done")


@pytest.mark.parametrize(
    ("events", "left"),
    [
        ([Clear(), Display({"text/plain": "a"}, {}, {}, False)], ["✓ x: done", "a"]),
        ([Clear(wait=True), Display({"text/plain": "a"}, {}, {}, False)], ["a", "✓ x: done"]),
        # `display(figure); clear_output(wait=True)` at the end of each turn: the last figure stays.
        ([Display({"text/plain": "a"}, {}, {}, False), Clear(wait=True)], ["✓ x: done", "a"]),
        (2 * [Display({"text/plain": "a"}, {}, {}, False), Clear(wait=True)], ["a", "✓ x: done"]),
    ],
)
def test_a_cell_that_clears_its_output_has_one_line_that_says_how_it_is(events: list[Event], left: list[str]) -> None:
    job, page = Job(id="x", name="x", source="", created=0.0, cwd="/"), Page()
    paths = JobPaths(Path("/nowhere"))
    shell: Any = SimpleNamespace(display_pub=page)
    show = NotebookShow(shell, job, paths, lambda text: True, WidgetsOfJob(job, paths))
    for event in (RAN, *events, ENDED):
        show(event)
    assert [text.partition(" ·")[0] for _, text in page.outputs] == left
