"""Widgets and bars that a training cell makes: drawn, heard, there after a reload, and as they were left."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Lab
from .screen import command, job_card, open_panel
from .training import end, run_all, run_cells, write_cells

NAME = "widgets"
CELL = f"""%%gpufit train --name {NAME} --memory 1GiB
import pathlib, time, ipywidgets as W
from tqdm.notebook import tqdm
go, bar, speed, seen = W.Button(description="go"), W.IntProgress(max=3000), W.IntSlider(max=50), W.Output()
clicks = []
go.on_click(lambda _: (clicks.append(1), print("clicked", len(clicks))))
speed.observe(lambda change: print("speed", change.new), "value")
display(W.VBox([go, bar, speed, seen]))
with seen:
    print("inside")
for step in tqdm(range(100_000), desc="steps"):
    bar.value = step % 3000
    time.sleep(0.01)
    if pathlib.Path("{NAME}.enough").exists():
        break
bar.value = 1500
"""


@pytest.fixture
def training(page: Page, lab: Lab) -> Iterator[str]:
    """The cell runs, and blocks its kernel."""
    write_cells(lab, NAME, CELL)
    try:
        open_panel(page, lab, f"/tree/{NAME}.ipynb")
        run_all(page)
        expect(job_card(page, NAME)).to_contain_text("running on cpu:")
        yield NAME
    finally:
        end(lab, NAME)


def output(page: Page, cell: int = 1) -> Locator:
    return page.locator(".jp-NotebookPanel:visible .jp-CodeCell").nth(cell).locator(".jp-Cell-outputArea")


def moves(bar: Locator) -> None:
    """It goes on, whoever looks."""
    expect(bar).to_have_attribute("style", re.compile("width"))
    expect(bar).not_to_have_attribute("style", bar.get_attribute("style") or "")


@pytest.mark.slow(38)
def test_they_work_in_the_page(page: Page, lab: Lab, training: str) -> None:
    cell = output(page)
    expect(cell.locator(".widget-vbox").locator(".widget-output")).to_contain_text("inside")
    moves(cell.locator(".widget-hprogress .progress-bar"))
    expect(cell).to_contain_text(re.compile(r"steps: .*\d+/100000"))
    cell.get_by_role("button", name="go").click()
    expect(cell).to_contain_text("clicked 1\n")
    cell.get_by_role("slider").press("ArrowRight")
    expect(cell).to_contain_text("speed 1\n")

    command(page, "docmanager:save")
    page.goto("about:blank")
    open_panel(page, lab, f"/tree/{NAME}.ipynb")

    # A kernel in the middle of a cell tells the page of no widget: they are drawn as they are, from the journal.
    bar = output(page).locator("progress[max='100']").first
    expect(bar).not_to_have_attribute("value", bar.get_attribute("value") or "")
    expect(output(page)).to_contain_text("clicked 1\n")
    expect(output(page).locator(".jp-OutputArea-output").nth(1)).to_contain_text("go")
    expect(output(page).locator(".jp-OutputArea-output").nth(1)).to_contain_text("inside")
    expect(output(page)).not_to_contain_text("VBox(")

    end(lab, NAME)
    expect(job_card(page, NAME)).to_contain_text("done")
    expect(bar).to_have_attribute("value", "50.0")
    expect(output(page).locator("progress[max='100']").nth(1)).to_have_attribute("value", "2.0")  # as it was set


OWN = "own-widgets"
SET_UP = """import pathlib, time, ipywidgets as W
from tqdm.notebook import tqdm
bar, steps = W.IntProgress(max=3000), tqdm(total=100_000, desc="steps")
bar
"""
USES = f"""%%gpufit train --name {OWN} --memory 1GiB
for step in range(100_000):
    bar.value = step % 3000
    steps.update()
    time.sleep(0.01)
    if pathlib.Path("{OWN}.enough").exists():
        break
"""
RESTART = "jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"


@pytest.mark.slow(14)
def test_an_earlier_cells_go_on_in_a_kernel_that_was_restarted(page: Page, lab: Lab) -> None:
    write_cells(lab, OWN, SET_UP, USES, f"%gpufit attach {OWN}")
    try:
        open_panel(page, lab, f"/tree/{OWN}.ipynb")
        run_cells(page, 0, 1, 2)
        bar = output(page).locator(".widget-hprogress .progress-bar").last
        counted = output(page).get_by_text(re.compile(r"\d+/100000"))
        moves(bar)

        page.evaluate(RESTART)
        run_cells(page, 0, 3)
        moves(bar)
        before = counted.inner_text()
        expect(counted).not_to_have_text(before)
    finally:
        end(lab, OWN)
