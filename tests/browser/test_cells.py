"""A cell has its job's output again: after a reload, a kernel's restart, a resume by the panel; its file, too."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Lab, running_lab
from .screen import button, command, fold, job_card, open_panel, panel_of
from .training import KERNEL_IS_READY, TRAINS, blocking, end, job_of, run_all, runs, write_cells, write_notebook

SAVES = 20  # more than there are looks until the one that is waited for
RUNNING = re.compile("running on cpu:[01] · step [1-9]")


@pytest.fixture
def training(page: Page, lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A cell that blocks its kernel and trains; its name."""
    name = request.node.name.removeprefix("test_").replace("_", "-")[:14].strip("-")
    with blocking(page, lab, name):
        yield name


def output(page: Page, cell: int = 1) -> Locator:
    """Of the cell that trains."""
    return page.locator(".jp-NotebookPanel:visible .jp-CodeCell").nth(cell).locator(".jp-Cell-outputArea")


@pytest.mark.slow(38)
def test_reloaded_while_it_blocks_and_ended_while_nobody_looked(page: Page, lab: Lab, training: str) -> None:
    expect(output(page)).to_contain_text("step 50\n")
    page.goto("about:blank")

    open_panel(page, lab, f"/tree/{training}.ipynb")

    expect(output(page)).to_contain_text("step 50\n")  # what was written before, and what comes
    expect(output(page)).to_contain_text("step 100\n")
    expect(output(page)).to_contain_text(re.compile(f"▶ {training}: running on cpu:[01] · step [1-9].*peak"))
    assert output(page).inner_text().count("step 50\n") == 1
    command(page, "docmanager:save")
    page.goto("about:blank")
    end(lab, training)
    open_panel(page, lab)
    fold(page, "Ended").click()
    expect(job_card(page, training)).to_contain_text("done")

    open_panel(page, lab, f"/tree/{training}.ipynb")

    expect(output(page)).to_contain_text("it had")
    expect(output(page)).to_contain_text(f"{training}: done")
    expect(output(page)).not_to_contain_text("running on")
    command(page, "docmanager:save")
    cell = json.loads((lab.home / f"{training}.ipynb").read_text())["cells"][1]
    assert "it had" in json.dumps(cell["outputs"])


@pytest.mark.slow(19)
def test_after_a_kernels_restart_and_a_resume_by_the_panel(page: Page, lab: Lab, training: str) -> None:
    expect(output(page)).to_contain_text("step 50\n")
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.evaluate(KERNEL_IS_READY)
    expect(output(page)).to_contain_text("step 150\n")

    button(page, f"Release {training}").click()
    expect(job_card(page, training)).to_contain_text("released")
    expect(output(page)).to_contain_text("released")
    button(page, f"Resume {training}").click()
    runs(page, training)
    end(lab, training)

    expect(output(page)).to_contain_text("it had")
    expect(output(page)).to_contain_text(f"{training}: done")


@pytest.mark.slow(18)
def test_a_file_that_is_saved_meanwhile_has_what_a_detached_job_has_shown(page: Page, lab: Lab) -> None:
    name = "meanwhile"
    write_notebook(lab, name, "--detach")
    try:
        open_panel(page, lab, f"/tree/{name}.ipynb")
        run_all(page)
        runs(page, name)
        expect(output(page)).to_contain_text("step 100\n")
        for _ in range(SAVES):
            # Without anything that is drawn there, so that it is saved by itself, too.
            page.wait_for_function("() => jupyterapp.shell.currentWidget.context.model.dirty")
            command(page, "docmanager:save")
            card, shown = json.loads((lab.home / f"{name}.ipynb").read_text())["cells"][1]["outputs"]
            says = "".join(card["data"]["text/plain"])
            if "step 100\n" in "".join(shown["data"]["text/html"]) and RUNNING.search(says):
                break
        else:
            pytest.fail(f"the file has none of it: {card} {shown}")
    finally:
        end(lab, name)
    assert "loss" in "".join(card["data"]["text/html"])


@pytest.mark.slow(30)
@pytest.mark.parametrize("when", [pytest.param("while nobody looks", marks=pytest.mark.soak), "before the page's eyes"])
def test_of_a_worker_that_was_killed_a_cell_does_not_say_that_it_runs(
    page: Page, lab: Lab, training: str, when: str
) -> None:
    expect(output(page)).to_contain_text("step 50\n")
    command(page, "docmanager:save")
    page.goto("about:blank")
    if when == "while nobody looks":
        kill(page, lab, training)
    readings: list[str] = []
    page.on("request", lambda request: readings.append(request.url) if "/api/status" in request.url else None)
    began = time.monotonic()

    page.goto(lab.address(f"/tree/{training}.ipynb"))
    if when == "before the page's eyes":
        expect(output(page)).to_contain_text("step 150\n")
        expect(output(page)).to_contain_text(RUNNING)
        kill(page, lab, training)

    expect(output(page)).to_contain_text(f"{training}: lost")
    expect(output(page)).to_contain_text("its process ended unexpectedly")
    expect(output(page)).not_to_contain_text("running on")
    expect(output(page)).to_contain_text("step 50\n")
    if when == "while nobody looks":
        most = 2 + (time.monotonic() - began) // 30
        assert len(readings) <= most, "with no panel open the next one is half a minute away"


def kill(page: Page, lab: Lab, name: str) -> None:
    os.kill(job_of(page, lab, name)["pid"], signal.SIGKILL)


BY_CELL = {1: "detached", 2: "waited-for"}


@pytest.mark.slow(72)
def test_with_no_panel_open_and_a_server_that_was_started_again(page: Page, tmp_path: Path) -> None:
    first, second = BY_CELL.values()
    cells = TRAINS.format(name=first, options="--detach"), TRAINS.format(name=second, options="")
    try:
        with running_lab(tmp_path) as lab:
            write_cells(lab, "outlives", *cells)
            page.goto(lab.address("/tree/outlives.ipynb"))
            run_all(page)
            for cell in BY_CELL:
                expect(output(page, cell)).to_contain_text("step 50\n")
            command(page, "docmanager:save")
            page.goto("about:blank")

        with running_lab(tmp_path, port=int(lab.url.rpartition(":")[2])):
            page.goto(lab.address("/tree/outlives.ipynb"))
            for cell, name in BY_CELL.items():
                expect(output(page, cell)).to_contain_text("step 150\n")
                expect(output(page, cell)).to_contain_text(RUNNING)
                assert output(page, cell).inner_text().count("step 50\n") == 1
                end(lab, name)
                expect(output(page, cell)).to_contain_text("it had")
                expect(output(page, cell)).to_contain_text(f"{name}: done")
            expect(panel_of(page)).to_be_hidden()
    finally:
        for name in BY_CELL.values():
            (tmp_path / f"{name}.enough").touch()
