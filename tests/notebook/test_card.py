"""The card under a cell."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jupyter_gpufit.errors import BadSetting, JobBusy
from jupyter_gpufit.jobs.curves import LATEST, OLDER
from jupyter_gpufit.jobs.events import Event, Metrics, ProgressMark, StateChange, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.live import Live, Memory
from jupyter_gpufit.jobs.live import Progress as Far
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import LastCheckpoint, Record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.jobs.verbs import Verb
from jupyter_gpufit.notebook import card as widget
from jupyter_gpufit.notebook.show import wants_card, with_card
from jupyter_gpufit.settings import Settings
from jupyter_gpufit.units import GiB
from tests.kernels import Kernel, Ran

PATIENCE = 300.0  # seconds: for what must come; never a measure of speed
JOB = Job(id="j", name="<b>ert", source="", created=0.0, cwd="/")


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    """Of a job that a worker has: the test."""
    paths = create_job_files(Settings(data=str(tmp_path)), JOB)
    take_lock(paths, "j")
    return paths


def record(paths: JobPaths, state: str, *, step: int = 3, saved: bool = False) -> None:
    live = Live(
        progress=Far(step=step, per_second=1.0, total=10, left=7.0), memory=Memory(used=1, peak=2, estimate=2 * GiB)
    )
    checkpoint = LastCheckpoint(1, 0.0, 1) if saved else None
    write_record(paths, Record(state=state, since=0.0, step=step, live=live, checkpoint=checkpoint))  # type: ignore[arg-type]


def card(paths: JobPaths, *events: Event) -> widget.JobCard:
    made = widget.JobCard(JOB, paths, Settings(data=str(paths.root.parents[1])))
    for event in events:
        made.take(event, 1.0)
    return made


def html(made: widget.JobCard) -> str:
    made.draw()
    return str(made._head.value + made._pictures.value + made._said.value)


def enabled(made: widget.JobCard) -> set[str]:
    made.draw()
    return {verb for verb, button in made._buttons.items() if not button.disabled}


def test_says_how_far_it_is(paths: JobPaths) -> None:
    record(paths, "running")
    shown = html(card(paths, StateChange("running", device="cpu:0")))
    assert "30 % of 10 steps, 7.0 s left" in shown and 'aria-valuenow="3"' in shown
    assert "&lt;b&gt;ert: running on cpu:0" in shown and "<b>" not in shown
    ended = StateChange("released", "released at step 3; `gpufit resume bert` goes on")
    assert "; <code>gpufit resume bert</code> goes on" in html(card(paths, ended))


def test_draws_the_loss_and_the_memory_against_its_estimate(paths: JobPaths) -> None:
    record(paths, "running")
    points = [Metrics(step, {"acc": 0.5, "val_loss": 1.0 / step}) for step in range(1, 5)]
    made = card(paths, *points, ProgressMark(1, GiB, GiB), ProgressMark(2, GiB, GiB))
    shown = html(made)
    assert "val_loss</span> 0.25" in shown and shown.count("<polyline") == 2
    assert "memory</span> 1.0 of 2.0 GiB estimated" in shown


def chips(made: widget.JobCard) -> dict[str, bool]:
    """What can be picked, and whether it is drawn."""
    return {chip.description: chip.value for chip in made._choice.children}


def test_what_is_drawn_can_be_picked_and_is_kept_for_the_job(paths: JobPaths) -> None:
    record(paths, "running")
    points = [Metrics(step, {"acc": 0.5, "loss": 1.0 / step}) for step in range(1, 5)]
    made, again = card(paths, *points), card(paths, *points)
    html(made)
    assert chips(made) == {"acc": False, "loss": True}
    made._chips["acc"].value = True
    assert "acc</span> 0.5" in html(made) and "loss</span> 0.25" in html(made)
    made._chips["loss"].value = False
    assert "acc</span> 0.5" in html(made) and "loss</span>" not in html(made)
    # A card in another notebook, and the same one after a restart of the kernel, show the same.
    for other in (again, card(paths, *points)):
        assert "acc</span> 0.5" in html(other) and "loss</span>" not in html(other)
        assert chips(other) == {"acc": True, "loss": False}


def test_of_one_number_there_is_nothing_to_pick(paths: JobPaths) -> None:
    made = card(paths, Metrics(1, {"loss": 1.0}), Metrics(2, {"loss": 0.5}))
    html(made)
    assert chips(made) == {} and made._choice.layout.display == "none"


def test_a_long_run_is_drawn_whole_or_its_latest_part(paths: JobPaths) -> None:
    made = card(paths, *(Metrics(step, {"loss": float(step)}) for step in range(3000)))
    assert "0 to 2999" in html(made) and chips(made) == {"latest only": False}
    made._latest.value = True
    assert "2000 to 2999" in html(made)


def test_a_loss_that_is_not_a_number_is_said(paths: JobPaths) -> None:
    record(paths, "running")
    assert "loss</span> not finite" in html(card(paths, Metrics(1, {"loss": 1.0}), Metrics(2, {"loss": None})))


def test_buttons_are_those_of_its_state(paths: JobPaths) -> None:
    record(paths, "running")
    made = card(paths)
    assert enabled(made) == {"checkpoint", "release", "move", "stop"}
    assert made._buttons["resume"].tooltip == "It is running."
    record(paths, "released", saved=True)
    assert enabled(made) == {"resume"}
    record(paths, "done", saved=True)
    assert enabled(made) == set()


def press(made: widget.JobCard, verb: Verb, words: str) -> None:
    """Press a button, and wait for what is said."""
    heard = threading.Event()
    made._said.observe(lambda change: heard.set() if words in change["new"] else None, "value")
    made._buttons[verb].click()
    assert heard.wait(PATIENCE), made._said.value


def test_a_button_does_what_the_command_does_and_shows_what_it_says(
    paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    did = []

    async def do(settings: Settings, id: str, verb: str, to: str) -> AsyncIterator[str]:
        did.append((id, verb, to, threading.current_thread() is threading.main_thread()))
        yield "<saved>"
        if verb == "move":
            raise JobBusy("bert", "moved")

    monkeypatch.setattr(widget, "on_job", do)
    record(paths, "running")
    made = card(paths)
    press(made, "checkpoint", "&lt;saved&gt;")
    press(made, "move", "so it cannot be moved")
    assert did == [("j", "checkpoint", "", False), ("j", "move", "", False)]


@pytest.mark.parametrize(
    ("answer", "does"), [("Save and stop", ["release"]), ("Stop without saving", ["stop"]), ("Go on", [])]
)
@pytest.mark.parametrize(("saved", "lost"), [(True, "since step 1 is lost."), (False, "what it did so far is lost.")])
def test_before_a_stop_it_says_what_is_lost_and_offers_to_save(
    paths: JobPaths, monkeypatch: pytest.MonkeyPatch, answer: str, does: list[str], saved: bool, lost: str
) -> None:
    did: list[str] = []
    monkeypatch.setattr(widget.JobCard, "_press", lambda self, verb: did.append(verb))
    record(paths, "running", saved=saved)
    made = card(paths)
    made._buttons["stop"].click()
    assert did == [] and made._question.layout.display == "" and lost in made._lost.value
    next(button for button in made._question.children[1].children if button.description == answer).click()
    assert did == does and made._question.layout.display == "none"


def test_a_stop_asks_nothing_where_nothing_can_be_saved_and_no_more_once_it_has_ended(
    paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []
    monkeypatch.setattr(widget.JobCard, "_press", lambda self, verb: did.append(verb))
    record(paths, "queued")
    made = card(paths)
    made._buttons["stop"].click()
    assert did == ["stop"] and made._question.layout.display == "none"
    record(paths, "running")
    made._buttons["stop"].click()
    record(paths, "done")
    made.draw()
    assert did == ["stop"] and made._question.layout.display == "none"


def test_whatever_goes_wrong_the_output_goes_on(paths: JobPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    record(paths, "running")
    made = card(paths)
    monkeypatch.setattr(widget, "read_job", lambda *_: 1 / 0)
    shown: list[Event] = []
    both = with_card(lambda event, when=None: shown.append(event), made)
    both(StateChange("running"), 1.0)
    both(Text("stdout", "hello"))
    assert len(shown) == 2 and "stands still" in made._said.value


def test_of_a_whole_journal_a_card_keeps_some_points(paths: JobPaths) -> None:
    record(paths, "running")
    made = card(paths, *(Metrics(step, {"loss": 1.0 / step}) for step in range(1, 5000)))
    assert len(made._curves.metrics["loss"].points()) <= LATEST + OLDER


def test_where_there_is_a_card() -> None:
    assert [wants_card("auto", None, apart=apart) for apart in (True, False)] == [True, False]
    assert wants_card("always", None, apart=False) and not wants_card("never", None, apart=True)
    assert wants_card("never", True, apart=False) and not wants_card("always", False, apart=True)
    with pytest.raises(BadSetting, match="GPUFIT_WIDGET"):
        wants_card("sometimes", None, apart=True)


VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.mark.slow
def test_under_a_cell_that_waits_only_when_asked_for_and_before_its_output(kernel: Kernel) -> None:
    plain = kernel.check("%%gpufit train --name plain\nprint('hello')\n")
    assert not any(VIEW in display for display in plain.displays) and plain.stdout == "hello\n"
    with_one = kernel.check("%%gpufit train --widget --name carded\nprint('hello')\n1 + 1\n")
    assert VIEW in with_one.displays[0] and len(widgets(with_one)) == 1
    assert with_one.stdout == "hello\n" and with_one.result is not None
    said = [display["text/plain"] for display in with_one.displays if "carded: " in display["text/plain"]]
    still = [display for display in with_one.displays if VIEW in display][-1]
    assert said[-1] == still["text/plain"] and "carded: done" in said[-1] and said[-1] in still["text/html"]
    assert all(VIEW in display for display in with_one.displays if "carded: " in display["text/plain"])  # said once
    without = kernel.check("%%gpufit train --detach --no-widget --name bare\nprint('hello')\n")
    assert len(widgets(without)) == 1  # where its output goes


def widgets(ran: Ran) -> list[dict[str, Any]]:
    return [display for display in ran.displays if VIEW in display and not display["update"]]


@pytest.mark.slow
def test_loading_makes_no_widget(kernel: Kernel) -> None:
    kernel.check("import ipywidgets, sys\nbefore = len(ipywidgets.Widget.widgets)\n%reload_ext jupyter_gpufit")
    kernel.check("assert len(ipywidgets.Widget.widgets) == before")
