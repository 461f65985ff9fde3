"""The page of a run, and the table of all: large pictures, others over them, a close look, what leaves as CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from .drawn import LAST, Drawn
from .screen import button, command
from .stage import CAN, NOW, Stage, a_job
from .test_log import WATCH_TASKS
from .test_log import text as written
from .worlds import a_lab

BACK = re.compile("^Resume from step ")


@pytest.fixture
def drawn(stage: Stage) -> Iterator[Drawn]:
    drawn = Drawn().open(stage.page)
    yield drawn
    drawn.close(stage.page)


def test_the_page_of_a_run(stage: Stage, drawn: Drawn) -> None:
    stage.show(**{**a_lab(), "time": stage.status["time"] + 0.01})
    page = stage.page

    button(page, "bert-run").click()
    run = page.locator(".jp-gpufit-run")
    loss = run.get_by_role("img", name=re.compile(r"^loss: bert-run 0\.4312 at step 3,184"))
    expect(loss.locator("canvas")).to_be_visible()
    expect(run.get_by_role("img", name="memory: peak 32.8 GiB")).to_be_visible()
    expect(run.get_by_role("img", name="device busy: 88 % on average")).to_be_visible()
    expect(run.get_by_role("img", name="power: 388 W on average")).to_be_visible()
    expect(run.get_by_role("img", name="GPU 1 is busy for 88 % of the time")).to_be_visible()
    expect(run.locator(".jp-gpufit-table").first).to_contain_text("bert-runloss0.35963,0880.4312")  # the best of it
    for text in ("%%gpufit train --name bert-run", "torch2.6.0", "claimed40.0 GiB", "step 2,400", "line 4 of the cell"):
        expect(run).to_contain_text(text)
    assert [one.get_attribute("aria-disabled") for one in run.get_by_role("button", name=BACK).all()] == ["true"] * 2

    loss.press("+")  # what is looked at closely is asked for
    expect(run.get_by_role("button", name="Whole run")).to_have_attribute("aria-disabled", "false")
    with page.expect_response(re.compile("stop=")):
        pass
    assert drawn.stretches[0] == (796, 2388)
    loss.press("0")

    run.get_by_label("Compare with").select_option(index=1)
    expect(loss.locator(".u-legend")).to_contain_text(re.compile("bert-run.*distil"))
    run.get_by_label(re.compile("^Over")).select_option("time")
    loss.hover(position={"x": 300, "y": 90})
    expect(loss.locator(".u-legend")).to_contain_text(re.compile(r"^at.* min"))


def test_a_long_text_in_the_log_of_a_run_is_there_to_its_end(stage: Stage, drawn: Drawn) -> None:
    stage.show(jobs=[a_job("bert-run", state="done")])
    stage.write(written("".join(f"epoch {n}\n" for n in range(200))))
    command(stage.page, "gpufit:run", job="id-of-bert-run", name="bert-run")

    block = stage.page.locator(".jp-gpufit-run .jp-gpufit-output pre").first
    expect(block).to_contain_text("epoch 199")
    block.scroll_into_view_if_needed()

    shown, whole = block.evaluate("pre => [pre.getBoundingClientRect().height, pre.scrollHeight]")
    assert shown == pytest.approx(whole, abs=2) and whole > 1000, (shown, whole)


def test_a_run_goes_back_to_an_earlier_checkpoint_when_that_is_meant(stage: Stage, drawn: Drawn) -> None:
    ended = a_job("bert-run", state="released", step=3100, can=CAN | {"resume": "", "stop": "It ended."})
    stage.show(jobs=[ended])
    page = stage.page
    command(page, "gpufit:run", job="id-of-bert-run", name="bert-run")
    run = page.locator(".jp-gpufit-run")
    dialog = page.locator(".jp-Dialog")

    run.get_by_role("button", name="Resume from step 2,400").click()
    expect(dialog).to_contain_text("Go back to step 2,400?")
    expect(dialog).to_contain_text("bert-run trains again what came after it")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    assert stage.asked == []

    run.get_by_role("button", name="Resume from step 2,400").click()
    with page.expect_request(re.compile("/resume")):
        dialog.get_by_role("button", name="Resume from here").click()
    with page.expect_request(re.compile("/resume")):
        run.get_by_role("button", name="Resume from step 3,000").click()  # the newest needs no question
    expect(dialog).to_be_hidden()
    assert stage.asked == [("jobs/id-of-bert-run/resume", {"to": "00000002400"}), ("jobs/id-of-bert-run/resume", {})]


def test_a_picture_shows_where_its_run_had_no_device_and_may_be_logarithmic(stage: Stage, drawn: Drawn) -> None:
    drawn.breaks = [{"step": 16 * LAST / 2, "left": NOW - 3720, "back": NOW - 3600}]
    stage.show(**{**a_lab(), "time": stage.status["time"] + 0.01})
    page = stage.page
    page.evaluate(NOTE_STROKES)

    button(page, "bert-run").click()
    run = page.locator(".jp-gpufit-run")
    expect(run.get_by_role("img", name=re.compile("^loss: ")).locator("canvas")).to_be_visible()
    page.wait_for_function("() => gpufitGaps.loss")
    assert page.evaluate("gpufitGaps.loss") == pytest.approx(0.5, abs=0.01)  # of its width
    run.get_by_label("Logarithmic").check()
    page.wait_for_function("() => gpufitTicks.loss['0.5']")
    at = page.evaluate("gpufitTicks.loss")
    assert at["0.5"] - at["1"] == pytest.approx(at["1"] - at["2"], abs=2)  # px: twice as much is equally far
    run.get_by_label("Logarithmic").uncheck()
    page.wait_for_function("was => gpufitTicks.loss['1'] !== was", arg=at["1"])


NOTE_STROKES = """() => {
  [window.gpufitGaps, window.gpufitTicks] = [{}, {}];
  const { moveTo, fillText } = CanvasRenderingContext2D.prototype;
  const titleOf = canvas => canvas.closest('figure')?.querySelector('figcaption').textContent;
  CanvasRenderingContext2D.prototype.moveTo = function (x, y) {
    if (this.getLineDash().join() === '2,3') {
      const [all, inside] = [this.canvas, this.canvas.parentNode.querySelector('.u-over')].map(
        node => node.getBoundingClientRect()
      );
      gpufitGaps[titleOf(this.canvas)] = (x / devicePixelRatio - (inside.left - all.left)) / inside.width;
    }
    return moveTo.call(this, x, y);
  };
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    if (this.textAlign === 'right') {
      (gpufitTicks[titleOf(this.canvas)] ??= {})[text] = y; // at the side
    }
    return fillText.call(this, text, x, y);
  };
}"""


def test_the_table_of_runs(stage: Stage, drawn: Drawn, tmp_path: Path) -> None:
    stage.show(**{**a_lab(), "time": stage.status["time"] + 0.01})
    page = stage.page
    command(page, "gpufit:runs")
    table = page.get_by_role("region", name="Table of runs")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(4)

    table.get_by_role("button", name="Steps").press("Enter")
    table.get_by_role("button", name="Steps").press("Enter")
    expect(rows.first).to_contain_text("12,000")
    expect(table.get_by_role("columnheader", name="Steps")).to_have_attribute("aria-sort", "descending")

    with page.expect_download() as found:
        page.get_by_role("button", name="Download as CSV").click()
    found.value.save_as(tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open(newline="") as file:
        kept = list(csv.DictReader(file))
    assert [row["name"] for row in kept][0] == "words" and kept[0]["steps"] == "12000"

    for name in ("words", "bert-run"):
        table.get_by_role("checkbox", name=f"Draw {name}").check()
    loss = page.get_by_role("img", name=re.compile("^loss: words .*; bert-run "))
    expect(loss.locator("canvas")).to_be_visible()
    table.get_by_role("button", name="bert-run", exact=True).click()
    expect(page.get_by_role("heading", name="bert-run", level=2)).to_be_visible()


@pytest.mark.soak  # bench/runs.py says how long each thing takes
def test_a_hundred_long_runs_do_not_hold_up_the_page(stage: Stage, drawn: Drawn) -> None:
    drawn.length = 1_000_000
    stage.show(jobs=[a_job(f"run-{i:02}", state="done", began=NOW - 9000 - i) for i in range(100)])
    page = stage.page
    page.evaluate(WATCH_TASKS)
    page.evaluate(COUNT_DRAWINGS)
    command(page, "gpufit:runs")
    page.get_by_role("checkbox", name="Mark all runs").check()
    power = page.get_by_role("img", name="power: 100 runs")  # the last picture
    expect(power.locator("canvas")).to_be_visible()
    assert sum(drawn.points) <= 60_000  # of all together: as many as the page draws smoothly
    tasks = sorted(page.evaluate("window.gpufitTasks"))
    assert sum(tasks) < 15_000, tasks  # ms; the clock's, and it may be a busy one

    loss = page.get_by_role("img", name=re.compile("^loss: "))
    assert pictures_drawn(page) > set()
    loss.hover(position={"x": 300, "y": 90})
    loss.hover(position={"x": 400, "y": 110})
    stage.show(jobs=stage.status["jobs"])  # another reading of the devices
    page.get_by_role("button", name="Download as CSV").hover()
    assert pictures_drawn(page) == set()
    page.get_by_label("Smoothing").press("End")
    page.wait_for_function("() => gpufitDrawn.size")
    assert pictures_drawn(page) == {"loss"}

    asked = len(drawn.asked)
    with page.expect_response(lambda _: len(drawn.stretches) >= 100):
        for _ in range(3):
            loss.press("+")
    assert len(drawn.asked) == asked + 100  # a closer look at each, at what the last step has come to


def pictures_drawn(page: Page) -> set[str]:
    """Since it was asked for the last time; each draws in the frame behind what changes it."""
    found: Any = page.evaluate(DRAWN)
    return set(found)


COUNT_DRAWINGS = """() => {
  window.gpufitDrawn = new Set();
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...box) {
    gpufitDrawn.add(this.canvas.closest('figure')?.querySelector('figcaption').textContent);
    return clear.apply(this, box);
  };
}"""
DRAWN = """async () => {
  await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)));
  const drawn = [...gpufitDrawn];
  gpufitDrawn.clear();
  return drawn;
}"""
