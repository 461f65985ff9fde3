"""The panel beside a real kernel and worker: while the cell blocks, after a reload, after a restart of either."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from .conftest import HANGS, SIZE, Lab, running_lab
from .screen import button, fold, job_card, open_panel, panel_of
from .training import KERNEL_IS_READY, blocking, end, run_all, runs, write_notebook


@pytest.fixture
def training(page: Page, lab: Lab, request: pytest.FixtureRequest) -> Iterator[str]:
    """A cell that blocks its kernel and trains, with the panel beside it; its name."""
    name = request.node.name.removeprefix("test_").replace("_", "-").removeprefix("a-").removeprefix("each-")[:12]
    with blocking(page, lab, name):
        yield name


@pytest.mark.slow(39)
def test_each_button_acts_while_the_cell_blocks(page: Page, lab: Lab, training: str) -> None:
    card = job_card(page, training)
    # Its notebook is in front: so are its curves, with nobody asking for them.
    expect(card.get_by_role("img", name=re.compile("^loss: "))).to_be_visible()

    button(page, f"Checkpoint {training}").click()
    expect(card.locator("dl")).to_contain_text(re.compile(r"savedstep \d+"))

    here = "cpu:0" if "cpu:0" in card.inner_text() else "cpu:1"
    there = "cpu:1" if here == "cpu:0" else "cpu:0"
    button(page, f"Move {training}").click()
    page.get_by_role("menu").get_by_role("menuitem", name=there).click()
    expect(card).to_contain_text(f"running on {there}")

    button(page, f"Release {training}").click()
    expect(card).to_contain_text("released")
    button(page, f"Resume {training}").click()
    runs(page, training)

    button(page, f"Stop {training}").click()
    page.locator(".jp-Dialog").get_by_role("button", name="Stop without saving").click()
    expect(card).to_contain_text("stopped")
    expect(card.get_by_role("alert")).to_have_count(0)


@pytest.mark.soak  # test_survival.py reloads in every run, and test_buttons.py has what every page sees
def test_a_reload_and_a_second_tab_see_the_same(browser: Browser, page: Page, lab: Lab, training: str) -> None:
    page.goto("about:blank")
    open_panel(page, lab)
    runs(page, training)
    button(page, f"Open log of {training}").click()
    expect(page.get_by_role("log")).to_contain_text("step 50")

    other = browser.new_page(viewport=SIZE)
    other.set_default_timeout(HANGS)
    open_panel(other, lab)
    button(other, f"Stop {training}").click()
    other.locator(".jp-Dialog").get_by_role("button", name="Stop without saving").click()

    for one in (other, page):
        fold(one, "Ended").click()
        expect(job_card(one, training)).to_contain_text("stopped")
    expect(page.get_by_role("log")).to_contain_text("KeyboardInterrupt")
    other.close()


@pytest.mark.soak  # test_cells.py restarts one in every run
def test_a_kernel_restart_leaves_the_training_alone(page: Page, lab: Lab, training: str) -> None:
    page.evaluate("jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.evaluate(KERNEL_IS_READY)

    runs(page, training)
    button(page, f"Open log of {training}").click()
    end(lab, training)
    expect(page.get_by_role("log")).to_contain_text("it had")
    expect(job_card(page, training)).to_contain_text("done")


@pytest.fixture
def lasting(tmp_path: Path) -> Iterator[str]:
    """The name of a job that its test's servers do not take along when they end."""
    yield "lasting"
    (tmp_path / "lasting.enough").touch()


@pytest.mark.soak  # test_cells.py starts one again in every run
def test_a_server_that_is_started_again_finds_the_job(page: Page, tmp_path: Path, lasting: str) -> None:
    with running_lab(tmp_path) as lab:
        write_notebook(lab, lasting, "--detach")
        open_panel(page, lab, f"/tree/{lasting}.ipynb")
        run_all(page)
        runs(page, lasting)
        button(page, f"Open log of {lasting}").click()
        expect(page.get_by_role("log")).to_contain_text("step 50")
    expect(panel_of(page).get_by_role("status").first).to_contain_text("The Jupyter server does not answer.")

    with running_lab(tmp_path, port=int(lab.url.rpartition(":")[2])):
        expect(panel_of(page).get_by_role("status").first).to_be_empty()
        end(lab, lasting)
        expect(job_card(page, lasting)).to_contain_text("done")
        expect(page.get_by_role("log")).to_contain_text("it had")
