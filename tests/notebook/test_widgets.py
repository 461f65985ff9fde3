"""Widgets that a cell made: seen and used in the notebook as long as its worker lives, and after it as they were."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import comm
import pytest
import traitlets
from ipywidgets import HBox, Image, IntSlider, Output, VBox
from ipywidgets.widgets import widget as widgets
from ipywidgets.widgets.trait_types import TypedTuple

from jupyter_gpufit.jobs.events import (
    Clear,
    Display,
    Event,
    Failure,
    StateChange,
    Text,
    WidgetMessage,
    decode_entry,
    encode_entry,
)
from jupyter_gpufit.jobs.events import Entry as JournalEntry
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record
from jupyter_gpufit.jobs.state import State
from jupyter_gpufit.notebook import mirrors as mirrors_
from jupyter_gpufit.notebook.mirrors import Mirrors
from jupyter_gpufit.notebook.show import WidgetsOfJob
from jupyter_gpufit.worker import comms
from jupyter_gpufit.worker.comms import Comms, WorkerComm, merged
from tests.command_line import gpufit
from tests.kernels import TIMEOUT, Kernel

JOB = Job(id="x", name="x", source="", created=0.0, cwd="/")
VIEW = "application/vnd.jupyter.widget-view+json"
CLICK = {"content": {"data": {"method": "update", "state": {"value": 5}}}}


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the comms of this process say, as a worker's do."""
    said: list[Any] = []
    monkeypatch.setattr(comm, "create_comm", comm.create_comm)
    monkeypatch.setattr(comm, "get_comm_manager", comm.get_comm_manager)
    monkeypatch.setattr(comms, "EVERY", 0.0)
    Comms(said.append, said.append).install()
    WorkerComm.here.hears = True
    return said


def told(comms: Comms, id: str, **data: Any) -> bool:
    return comms.hear(json.dumps({"comm": id, "data": data, "buffers": []})).ok


def test_a_worker_tells_what_its_widgets_are_and_become(worker: list[Any]) -> None:
    slider = IntSlider(value=3)
    opened = worker[-1]
    assert (opened.what, opened.comm, opened.data["state"]["value"]) == ("open", slider.model_id, 3)
    slider.value = 4
    assert (worker[-1].what, worker[-1].data["state"]) == ("msg", {"value": 4})
    picture = Image(value=b"\x00\xff", format="raw")
    assert worker[-1].buffers == (b64encode(b"\x00\xff").decode(),)
    entry = JournalEntry(1, 2.0, worker[-1])
    assert decode_entry(encode_entry(entry)) == entry
    picture.close()
    assert worker[-1].what == "close"


def test_what_changes_all_the_time_is_told_now_and_then(worker: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    slider = IntSlider()
    monkeypatch.setattr(comms, "EVERY", 1e9)
    monkeypatch.setattr(threading.Thread, "start", lambda self: None)  # which would tell it after that long
    del worker[:]
    for value in range(1, 101):
        slider.value = value
    assert [one.data["state"]["value"] for one in worker] == [1]
    WorkerComm.here.flush()
    assert [one.data["state"]["value"] for one in worker] == [1, 100]
    slider.value, slider.description = 1, "end"
    slider.send({"custom": 1})  # which comes in its place
    assert [one.data.get("state") for one in worker[2:]] == [{"value": 1, "description": "end"}, None]


def test_what_holds_a_widget_is_told_with_it(worker: list[Any]) -> None:
    bar, apart = IntSlider(), IntSlider()
    box = VBox([HBox([bar])])
    for one in (bar, apart, box, *box.children):
        one.comm.announced = False  # the notebook's own, which a kernel that attaches may not have
    del worker[:]
    bar.value = 3
    told = [(one.what, one.comm) for one in worker]
    assert told == [("again", one.model_id) for one in (bar, box.children[0], box)] + [("msg", bar.model_id)]


def test_two_changes_are_one_with_the_bytes_of_both() -> None:
    first = WidgetMessage("c", "msg", {"state": {"a": 1, "b": 2}, "buffer_paths": [["x"], ["y", 0]]}, ("X", "Y"))
    second = WidgetMessage("c", "msg", {"state": {"b": 3}, "buffer_paths": [["x"]]}, ("Z",))
    both = merged(first, second)
    assert both.data["state"] == {"a": 1, "b": 3}
    assert dict(zip(map(tuple, both.data["buffer_paths"]), both.buffers, strict=True)) == {("y", 0): "Y", ("x",): "Z"}


def test_what_a_browser_sends_is_heard_at_a_safe_point(worker: list[Any]) -> None:
    slider, seen, here = IntSlider(), [], WorkerComm.here
    slider.observe(lambda change: seen.append(change.new), "value")
    assert told(here, slider.model_id, method="update", state={"value": 7})
    assert seen == []
    here.take()
    assert seen == [7] and slider.value == 7
    assert not told(here, "another", method="update", state={})
    assert not here.hear("nonsense").ok
    here.hears = False
    assert here.hear('{"comm": "c", "data": {}, "buffers": []}').data == {"later": True}


def test_only_widgets_are_carried_and_none_that_is_too_large(
    worker: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    comm.create_comm(target_name="jupyter.widget.control", data={"method": "request_states"})
    comm.create_comm(target_name="mine", data={})
    assert worker == []
    monkeypatch.setattr(comms, "LONGEST", 10_000)
    for _ in range(2):
        Image(value=b"x" * 20_000)
    [note] = [one for one in worker if isinstance(one, str)]
    assert note.endswith("is not shown: 9.8 KiB is the limit.")


@dataclass
class Browser:
    """What a kernel's comms send."""

    sent: list[tuple[str, Any]] = field(default_factory=list)

    def create(self, **given: Any) -> Any:
        browser = self

        class Line(comm.DummyComm):
            def publish_msg(self, msg_type: str, data: Any = None, *args: Any, **keys: Any) -> None:
                browser.sent.append((msg_type, data))

        return Line(**given)


@pytest.fixture
def browser(monkeypatch: pytest.MonkeyPatch) -> Browser:
    browser = Browser()
    monkeypatch.setattr(comm, "create_comm", browser.create)
    return browser


def opened(id: str, **state: Any) -> WidgetMessage:
    return WidgetMessage(id, "open", {"state": {"_model_name": "OutputModel", "value": 0, **state}, "buffer_paths": []})


def changed(id: str, **state: Any) -> WidgetMessage:
    return WidgetMessage(id, "msg", {"method": "update", "state": state, "buffer_paths": []})


def mirrors(*events: Event) -> Mirrors:
    found = Mirrors(JOB, JobPaths(Path("/nowhere")))
    for event in events:
        if isinstance(event, WidgetMessage):
            found.take(event)
        else:
            found.caught(event)
    return found


def test_a_mirror_has_the_state_and_keeps_what_is_chosen(browser: Browser) -> None:
    mirrors(opened("m1"), changed("m1", value=5))
    mirror = widgets._instances["m1"]
    assert [kind for kind, _ in browser.sent] == ["comm_open", "comm_msg"]
    assert mirror.get_state()["value"] == 5 and mirror.get_state("value") == {"value": 5}
    assert mirror._get_embed_state()["model_name"] == "OutputModel"
    mirror._handle_msg({"content": {"data": {"method": "update", "state": {"value": 9}}}})
    assert browser.sent[-1][1]["method"] == "echo_update" and mirror.get_state()["value"] == 9
    mirror._handle_msg({"content": {"data": {"method": "request_state"}}})
    assert browser.sent[-1][1]["state"]["value"] == 9
    mirror.close()


def test_a_job_reaches_no_widget_but_its_own(browser: Browser) -> None:
    mine = Output()
    job = mirrors(opened(mine.model_id, value=1), changed(mine.model_id, value=2), changed("unknown", value=2))
    assert widgets._instances[mine.model_id] is mine
    display = Display({"text/plain": "Output()"}, {}, {"gpufit_widget": mine.model_id})
    assert job.shown(display) == {"text/plain": "Output()"}  # and no view of what is not its own


def test_the_notebooks_own_that_went_to_a_job_speak_with_it(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, seen, told = IntSlider(value=1), [], threading.Event()
    mine.observe(lambda change: seen.append(change.new), "value")
    left: list[str] = []
    monkeypatch.setattr(mirrors_, "read_record", lambda paths: Record(state="done" if left else "running", since=0.0))

    def is_heard(*_: Any) -> bool:
        told.set()
        return True

    monkeypatch.setattr(Mirrors, "_is_heard", is_heard)
    job = Mirrors(JOB, JobPaths(Path("/nowhere")), {mine.model_id: mine})

    job.take(changed(mine.model_id, value=2))
    assert browser.sent[-1][1]["state"] == {"value": 2} and (mine.value, seen) == (2, [])  # observers are the worker's
    mine.comm._msg_callback(CLICK)
    assert told.wait(TIMEOUT) and (mine.value, seen) == (5, [])
    assert browser.sent[-1][1]["method"] == "echo_update"

    left.append("done")
    mine.value = 1
    mine.comm._msg_callback(CLICK)
    assert (mine.value, seen) == (5, [1, 5]) and mine.comm._msg_callback == mine._handle_msg


def own(state: State, monkeypatch: pytest.MonkeyPatch) -> tuple[IntSlider, list[int], WidgetsOfJob]:
    """A slider of the notebook's that went to a job, what its observers hear, and the job's widgets here."""
    mine, seen = IntSlider(value=1), list[int]()
    mine.observe(lambda change: seen.append(change.new), "value")
    monkeypatch.setattr(mirrors_, "read_record", lambda paths: Record(state=state, since=0.0))
    monkeypatch.setattr(Mirrors, "_is_heard", lambda *_: True)
    job = WidgetsOfJob(JOB, JobPaths(Path("/nowhere")))
    job.send({mine.model_id: mine})
    return mine, seen, job


def test_of_a_job_that_is_lost_the_notebook_hears_its_own(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, seen, _ = own("lost", monkeypatch)
    mine.comm._msg_callback(CLICK)
    assert seen == [5] and mine.comm._msg_callback == mine._handle_msg


def test_from_a_jobs_end_on_the_notebook_hears_its_own(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, seen, job = own("running", monkeypatch)
    job.take(StateChange("released"))
    assert mine.comm._msg_callback == mine._handle_msg
    job.take(WidgetMessage(mine.model_id, "again", {"state": {"value": 3}}))  # somebody went on with it
    mine.comm._msg_callback(CLICK)
    assert (mine.value, seen) == (5, [])


def test_a_job_that_has_left_takes_no_widget_from_a_later_one(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, seen, first = own("running", monkeypatch)
    later = JobPaths(Path("/later"))
    second = WidgetsOfJob(JOB, later)
    second.send({mine.model_id: mine})
    theirs = mine.comm._msg_callback
    lives = {later: Record(state="running", since=0.0)}
    monkeypatch.setattr(mirrors_, "read_record", lambda paths: lives.get(paths, Record(state="done", since=0.0)))
    mine.comm._msg_callback({"content": {"data": {"method": "request_state"}}})
    assert browser.sent[-1][1]["state"]["value"] == 1 and mine.comm._msg_callback is theirs
    for job in (first, second):
        job.take(StateChange("done"))
    mine.comm._msg_callback(CLICK)
    assert seen == [5] and mine.comm._msg_callback == mine._handle_msg


def test_lists_and_tuples_of_the_notebooks_own_stay_what_they_are(browser: Browser) -> None:
    class Chosen(IntSlider):  # type: ignore[misc]  # untyped library
        names: Any = traitlets.List().tag(sync=True)
        pair = traitlets.Tuple().tag(sync=True)
        several = TypedTuple(traitlets.Int()).tag(sync=True)

    mine = Chosen()
    job = Mirrors(JOB, JobPaths(Path("/nowhere")), {mine.model_id: mine})
    job.take(changed(mine.model_id, names=["a"], pair=[1, 2], several=[3]))
    mine.names.append("b")
    assert (mine.names, mine.pair, mine.several) == (["a", "b"], (1, 2), (3,))


def test_an_output_of_the_notebooks_own_catches_what_a_job_writes(browser: Browser) -> None:
    mine = Output()
    job = Mirrors(JOB, JobPaths(Path("/nowhere")), {mine.model_id: mine})
    job.take(changed(mine.model_id, msg_id="x"))
    assert job.caught(Text("stdout", "in")) and [one["text"] for one in mine.outputs] == ["in"]
    job.take(changed(mine.model_id, msg_id=""))
    assert not job.caught(Text("stdout", "out"))


def test_an_output_has_what_was_written_within(browser: Browser) -> None:
    job = mirrors(
        opened("m2"),
        Text("stdout", "before"),
        changed("m2", msg_id="x"),
        Text("stdout", "a"),
        Text("stdout", "b"),
        Text("stderr", "c"),
        Failure("E", "v", ("trace",)),
        changed("m2", msg_id=""),
        Text("stdout", "after"),
    )
    mirror = widgets._instances["m2"]
    assert [one.get("text", one["output_type"]) for one in mirror.get_state()["outputs"]] == ["ab", "c", "error"]
    assert all("msg_id" not in (data or {}).get("state", {}) for kind, data in browser.sent if kind == "comm_msg")
    for event in (changed("m2", msg_id="x"), Clear(wait=True)):
        job.take(event) if isinstance(event, WidgetMessage) else job.caught(event)
    assert len(mirror.get_state()["outputs"]) == 3
    job.caught(Text("stdout", "new"))
    assert [one["text"] for one in mirror.get_state()["outputs"]] == ["new"]
    job.caught(Clear())
    assert mirror.get_state()["outputs"] == []
    mirror.close()


CELL = """%%gpufit train --name widgets --memory 1GiB
import ipywidgets as W, time
go, bar, out = W.Button(description="go"), W.IntProgress(max=1000), W.Output()
clicks = []
go.on_click(lambda _: no_such_name)
go.on_click(lambda _: (clicks.append(1), print("clicked", len(clicks))))
display(W.VBox([go, bar, out]))
with out:
    print("inside")
print("ready")
while len(clicks) < 2:
    bar.value += 1
    time.sleep(.01)
bar.value = 1000
"""
STATES = """
from ipywidgets.widgets import widget as w
print({one._model_name: one.get_state() for one in w._instances.values()})
"""


class Screen:
    """What a browser knows of a kernel's widgets."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.models: dict[str, str] = {}  # by the model's name: its id
        self.views: list[str] = []
        self.text = ""

    def until(self, sent: str, wanted: str = "", *, view: bool = False) -> None:
        """Look on until it is written, until a view is shown, or the cell has ended."""
        until = time.monotonic() + TIMEOUT
        while not (wanted and wanted in self.text) and not (view and self.views):
            message = self.kernel._message(until)
            content = message["content"]
            if message["msg_type"] == "comm_open":
                self.models[content["data"]["state"]["_model_name"]] = content["comm_id"]
            elif message["msg_type"] == "display_data" and VIEW in content["data"]:
                self.views.append(content["data"][VIEW]["model_id"])
            elif message["msg_type"] == "stream":
                self.text += content["text"]
            elif content.get("execution_state") == "idle" and message["parent_header"].get("msg_id") == sent:
                assert not wanted and not view, self.text
                return

    def click(self, model: str) -> None:
        session, channel = self.kernel.client.session, self.kernel.client.shell_channel
        data = {"method": "custom", "content": {"event": "click"}}
        channel.send(session.msg("comm_msg", {"comm_id": self.models[model], "data": data}))


@pytest.mark.slow
@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_widgets_of_an_earlier_cell_work_in_one_that_trains(kernel: Kernel) -> None:
    screen = Screen(kernel)
    sent = kernel.send(
        "import ipywidgets as W, time\nstop, bar, out, told = W.Button(), W.IntProgress(max=9), W.Output(), []\n"
        "stop.on_click(lambda _: told.append(bar.value))"
    )
    screen.until(sent)
    sent = kernel.send(
        "%%gpufit train --memory 1GiB\nstop.description = 'stop'\nwith out:\n    print('inside')\nbar.value = 7\n"
        "print('ready')\nwhile not told:\n    time.sleep(.01)"
    )
    screen.until(sent, "ready")
    screen.click("ButtonModel")
    screen.until(sent)
    kernel.check("assert told == [7] == [bar.value] and out.outputs[0]['text'] == 'inside\\n'")
    kernel.check("stop.click(); bar.value = 8; stop.click()\nassert told == [7, 7, 8]")


@pytest.mark.slow
def test_what_a_cell_made_is_heard_by_the_notebook_once_it_has_ended(kernel: Kernel) -> None:
    screen = Screen(kernel)
    sent = kernel.send(
        "%%gpufit train --memory 1GiB\nimport ipywidgets as W\n"
        "button, slider, out, heard = W.Button(), W.IntSlider(value=4), W.Output(), []\n"
        "button.on_click(lambda _: heard.append(slider.value))\n"
        "display(W.VBox([button, slider, out]))\nwith out:\n    print('inside')\nslider.value = 5"
    )
    screen.until(sent, view=True)
    screen.until(sent)
    screen.click("ButtonModel")
    kernel.check("assert heard == [5], heard")
    kernel.check("assert out.outputs[0]['text'] == 'inside\\n', out.outputs")
    kernel.check("slider.value = 6; button.click(); assert heard == [5, 6] and slider.comm is not None")


@pytest.mark.slow
@pytest.mark.usefixtures("no_worker_outlives_its_test")
def test_widgets_of_a_cell_work_and_go_with_it(env: dict[str, str], kernel: Kernel, second_kernel: Kernel) -> None:
    here, there = Screen(kernel), Screen(second_kernel)
    sent = kernel.send(CELL)
    here.until(sent, "ready")
    assert here.views == [here.models["VBoxModel"]]
    here.click("ButtonModel")
    here.until(sent, "clicked 1")
    gpufit(env, "release", "widgets")
    here.until(sent)

    sent = second_kernel.send("%gpufit resume widgets")
    there.until(sent, view=True)
    assert there.views == here.views  # shown where it goes on
    there.click("ButtonModel")
    there.until(sent)
    assert "clicked 2" in there.text and "NameError" in there.text  # of a handler's, which ends no cell
    states = second_kernel.check(STATES).stdout  # of whom the worker is gone
    assert "'text': 'inside\\n'" in states and "'value': 1000" in states
