"""The curves of a job: those of the notebook in front, and which of its numbers are drawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Route, expect

from .conftest import Lab
from .drawn import Drawn
from .screen import button, job_card, section, unfold
from .stage import CAN, GIB, NOW, Stage, a_job

MEMORY = {"used": int(30.4 * GIB), "peak": 32 * GIB, "estimate": 36 * GIB}


@pytest.fixture
def drawn(stage: Stage) -> Iterator[Drawn]:
    drawn = Drawn().open(stage.page)
    yield drawn
    drawn.close(stage.page)


def picture(stage: Stage, job: str, words: str) -> Locator:
    return job_card(stage.page, job).get_by_role("img", name=re.compile(f"^{words}"))


def test_any_jobs_curves_can_be_unfolded_by_keyboard(stage: Stage, drawn: Drawn) -> None:
    stage.show(jobs=[a_job("digits", memory=MEMORY), a_job("queued", state="queued")])
    fold = button(stage.page, "Curves of digits")
    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(button(stage.page, "Curves of queued")).to_have_count(0)
    assert drawn.asked == []  # nobody looks

    fold.press("Enter")

    expect(picture(stage, "digits", r"loss: 0\.\d+ at step 3,184")).to_be_visible()
    expect(picture(stage, "digits", r"memory: \d\d\.\d of 36\.0 GiB estimated")).to_be_visible()
    fold.press("Enter")
    expect(picture(stage, "digits", "loss")).to_have_count(0)


def test_of_a_loss_that_is_told_nobody_says_that_there_is_none(stage: Stage, drawn: Drawn) -> None:
    nothing: dict[str, object] = {
        "names": [],
        "curves": [],
        "memory": [],
        "clock": [],
        "busy": [],
        "power": [],
        "breaks": [],
        "laps": [],
    }
    address = "**/jupyter-gpufit/api/jobs/id-of-early/curves*"
    stage.page.route(address, lambda route: route.fulfill(json=nothing | {"older": False}))
    stage.show(jobs=[a_job("early")])
    button(stage.page, "Curves of early").click()
    card = job_card(stage.page, "early")
    expect(card).to_contain_text("Nothing to draw")

    stage.page.unroute(address)  # the next answer has it
    stage.show(jobs=[a_job("early", loss={"name": "loss", "value": 0.5})])

    expect(card).not_to_contain_text("Nothing to draw", timeout=INTERVAL / 2)


INTERVAL = 3000  # ms between two questions of the panel, as curves.tsx has it


def test_what_is_drawn_is_picked_and_told_to_the_server(stage: Stage, drawn: Drawn) -> None:
    stage.show(jobs=[a_job("sums", memory=MEMORY)])
    button(stage.page, "Curves of sums").click()
    chips = stage.page.get_by_role("group", name="What is drawn of sums").get_by_role("button")
    expect(chips).to_have_text(["loss", "accuracy", "lr"])
    expect(chips.nth(0)).to_have_attribute("aria-pressed", "true")

    chips.nth(2).press("Space")

    expect(picture(stage, "sums", "lr")).to_be_visible()
    expect(chips.nth(2)).to_have_attribute("aria-pressed", "true")
    assert drawn.shown == ["loss", "lr"]
    chips.nth(0).click()
    expect(picture(stage, "sums", "loss")).to_have_count(0)
    assert drawn.shown == ["lr"]


def test_a_pick_that_is_refused_says_why(stage: Stage, drawn: Drawn) -> None:
    drawn.refusal = "The disk is full. Delete the files of jobs that have ended: `gpufit clean`."
    stage.show(jobs=[a_job("full", memory=MEMORY)])
    button(stage.page, "Curves of full").click()

    stage.page.get_by_role("button", name="lr").click()

    expect(job_card(stage.page, "full").get_by_role("alert")).to_contain_text("The disk is full.")
    expect(stage.page.get_by_role("button", name="lr")).to_have_attribute("aria-pressed", "false")


def test_a_long_run_is_drawn_whole_or_its_latest_part(stage: Stage, drawn: Drawn) -> None:
    drawn.names, drawn.older = ["loss"], True
    stage.show(jobs=[a_job("long", memory=MEMORY)])
    button(stage.page, "Curves of long").click()
    latest = stage.page.get_by_role("button", name="latest only")
    expect(latest).to_have_attribute("aria-pressed", "false")

    with stage.page.expect_response(re.compile("span=latest")):
        latest.click()

    expect(latest).to_have_attribute("aria-pressed", "true")
    assert drawn.spans[0] == "whole"


@pytest.fixture
def paper(stage: Stage) -> Iterator[None]:
    """Every notebook is an empty one that waits for its kernel: the server has none to read, nor to start."""
    page = stage.page

    def session(route: Route) -> None:
        if route.request.method == "GET":
            route.fallback()

    def contents(route: Route) -> None:
        path = route.request.url.split("/api/contents/")[1].split("?")[0]
        about = {"name": path, "path": path, "type": "notebook", "format": "json", "mimetype": None, "writable": True}
        route.fulfill(json=about | TIMES | {"content": A_NOTEBOOK})

    answers: dict[str, Callable[[Route], None]] = {
        "**/api/sessions*": session,
        "**/api/contents/*.ipynb?*": contents,
        "**/api/contents/*/checkpoints*": lambda route: route.fulfill(json=[{"id": "one"} | TIMES]),
    }
    # Or the server would import its exporters, and could not be stopped meanwhile.
    answers["**/api/nbconvert*"] = lambda route: route.fulfill(json={})
    for place, answer in answers.items():
        page.route(place, answer)
    yield
    page.evaluate(CLOSE)
    for place in answers:
        page.unroute(place)


# Not `close`, which would ask whether to save it.
CLOSE = "() => [...jupyterapp.shell.widgets('main')].forEach(tab => tab.dispose())"
OPEN = "path => void jupyterapp.commands.execute('docmanager:open', { path })"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
CELL: dict[str, Any] = {
    "id": "c",
    "cell_type": "code",
    "source": "",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
}
TIMES = {"created": "2026-01-01T00:00:00Z", "last_modified": "2026-01-01T00:00:00Z"}
A_NOTEBOOK = {"cells": [CELL], "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5}


def test_the_job_of_the_notebook_in_front_comes_first_with_its_curves(
    stage: Stage, drawn: Drawn, paper: None, lab: Lab
) -> None:
    ended: dict[str, Any] = {"state": "done", "can": CAN}
    jobs = [
        a_job("old", notebook=f"{lab.home}/letters.ipynb", since=NOW - 99, memory=MEMORY, **ended),
        a_job("letters", notebook=f"{lab.home}/letters.ipynb", memory=MEMORY, **ended),
        a_job("words", notebook=f"{lab.home}/words.ipynb", memory=MEMORY),
    ]
    stage.show(jobs=jobs)
    cards = section(stage.page, "My jobs").get_by_role("listitem")
    expect(cards.first).to_contain_text("words")  # it is the newest

    stage.page.evaluate(OPEN, "letters.ipynb")
    expect(cards.first).to_contain_text("letters.ipynb, this notebook")
    expect(picture(stage, "letters", "loss")).to_be_visible()
    expect(picture(stage, "words", "loss")).to_have_count(0)
    unfold(stage.page, "Ended")
    expect(button(stage.page, "Curves of old")).to_have_attribute("aria-expanded", "false")

    stage.page.evaluate(OPEN, "words.ipynb")
    expect(cards.first).to_contain_text("words.ipynb, this notebook")
    expect(picture(stage, "words", "loss")).to_be_visible()
    expect(picture(stage, "letters", "loss")).to_have_count(0)
    button(stage.page, "Open log of words").click()
    expect(stage.page.get_by_role("log")).to_be_visible()
    expect(cards.first).to_contain_text("words.ipynb, this notebook")  # which is what one works on still
