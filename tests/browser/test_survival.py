"""One page in the middle of a training: its network is cut, it is reloaded, the worker is killed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from .conftest import HANGS, SIZE, Lab, keep_picture
from .relay import Relay, relaying
from .screen import button, job_card, open_panel, panel_of
from .training import ask, end, job_of, run_cells, runs, write_notebook

NAME = "lasting"


@dataclass(frozen=True)
class Desk:
    """A page beyond a network that can be cut: the panel, a notebook whose job is detached, and the job's log."""

    page: Page
    lab: Lab
    network: Relay

    @property
    def card(self) -> Locator:
        """In the panel."""
        return job_card(self.page, NAME)

    @property
    def log(self) -> Locator:
        return self.page.get_by_role("log", name=f"Output of {NAME}")

    @property
    def trouble(self) -> Locator:
        return panel_of(self.page).get_by_role("status").first

    def press(self, verb: str) -> None:
        button(self.page, f"{verb} {NAME}").click()


@pytest.fixture(scope="module")
def opened(browser: Browser, lab: Lab) -> Iterator[Desk]:
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(HANGS)
    write_notebook(lab, NAME, "--detach", f"%gpufit attach {NAME}")
    with relaying(int(lab.url.rpartition(":")[2])) as network:
        desk = Desk(page, lab, network)
        try:
            open_panel(
                page, replace(lab, url=f"http://127.0.0.1:{network.port}"), f"/workspaces/survival/tree/{NAME}.ipynb"
            )
            run_cells(page, 0, 1)
            runs(page, NAME)
            button(page, f"Open log of {NAME}").click()
            expect(desk.log).to_contain_text("step 50")
            yield desk
        finally:
            end(lab, NAME)
            page.close()


@pytest.fixture(scope="module")
def cell_that_blocks(opened: Desk) -> None:
    """The last one runs, and shows the training."""
    runs(opened.page, NAME)
    tab(opened.page, f"{NAME}.ipynb").click()
    run_cells(opened.page, 2)


@pytest.fixture
def desk(opened: Desk, request: pytest.FixtureRequest) -> Iterator[Desk]:
    runs(opened.page, NAME)
    yield opened
    opened.network.mend()
    keep_picture(opened.page, request)


@pytest.mark.slow(53)
def test_a_reload_brings_back_the_log_and_a_live_card(desk: Desk) -> None:
    reload(desk)
    runs(desk.page, NAME)
    expect_live(desk, 1)
    expect(tab(desk.page, f"Log of {NAME}")).to_have_count(1)
    desk.press("Open log of")
    expect(desk.log).to_contain_text("step 50")


@pytest.mark.usefixtures("cell_that_blocks")
@pytest.mark.slow(25)
def test_a_reload_brings_back_the_card_of_a_cell_that_blocks(desk: Desk) -> None:
    expect_live(desk, 2)
    reload(desk)
    expect_live(desk, 2)


@pytest.mark.usefixtures("cell_that_blocks")
@pytest.mark.slow(20)
def test_a_page_that_hears_too_late_of_widgets_has_the_card_of_a_cell_that_blocks(desk: Desk) -> None:
    desk.page.add_init_script(NO_PATIENCE)
    reload(desk)
    expect_live(desk, 2)


# What ipywidgets gives a kernel to tell of its widgets is over at once, as on a page that has long been busy.
NO_PATIENCE = """const wait = window.setTimeout;
window.setTimeout = (act, ms, ...rest) => wait(act, ms === 4000 ? 0 : ms, ...rest);"""


@pytest.mark.slow(15)
def test_a_cut_network_is_told_and_no_press_acts_twice(desk: Desk) -> None:
    desk.network.cut()
    desk.press("Release")
    expect(desk.card.get_by_role("alert")).to_contain_text("whether it heard this is not known")
    expect(desk.trouble).to_contain_text("The Jupyter server does not answer.")
    desk.network.mend()
    expect(desk.trouble).to_be_empty()

    expect(desk.card).to_contain_text("released")  # the press was on its way
    desk.press("Resume")
    runs(desk.page, NAME)
    bar = desk.card.get_by_role("progressbar")
    for _ in range(3):  # readings, in which a press that is sent again would release it again
        expect(bar).not_to_have_attribute("aria-valuetext", bar.get_attribute("aria-valuetext") or "")
    saved = [event for event in journal(desk) if event["kind"] == "saved"]
    assert [event["why"] for event in saved] == ["release"]
    expect_live(desk, 1)  # a detached card follows it, whoever has resumed it


def journal(desk: Desk) -> list[dict[str, object]]:
    id = job_of(desk.page, desk.lab, NAME)["id"]
    entries = ask(desk.page, desk.lab, f"jobs/{id}/journal?after=-1000").json()["entries"]
    return [entry["event"] for entry in entries]


def test_a_worker_that_was_killed_is_lost_and_goes_on_from_its_checkpoint(desk: Desk) -> None:
    desk.press("Checkpoint")
    expect(desk.card.locator("dl")).to_contain_text(re.compile(r"savedstep \d+"))
    os.kill(job_of(desk.page, desk.lab, NAME)["pid"], signal.SIGKILL)

    expect(desk.card).to_contain_text("lost")
    expect(desk.card).to_contain_text("its process ended unexpectedly")
    expect(button(desk.page, f"Stop {NAME}")).to_have_count(0)
    desk.press("Resume")
    runs(desk.page, NAME)


def reload(desk: Desk) -> None:
    """Once what is open has been noted, as JupyterLab does by itself after a moment."""
    tab(desk.page, f"{NAME}.ipynb").click()
    desk.page.evaluate("async () => { await jupyterapp.commands.execute('docmanager:save'); }")
    desk.page.evaluate(IS_NOTED, f"gpufit-log:{job_of(desk.page, desk.lab, NAME)['id']}")
    desk.page.evaluate(OPENS_NOTHING)
    desk.page.reload()
    # Until all is as it was: the notebook would be put before what is opened meanwhile.
    desk.page.wait_for_function("() => window.jupyterapp")
    desk.page.evaluate("async () => { await jupyterapp.restored; }")


# Once all is as it was, JupyterLab opens what the address names: at any time later, and before what a test has opened.
OPENS_NOTHING = r"() => history.replaceState(null, '', location.href.replace(/\/tree\/[^?]*/, ''))"
IS_NOTED = """async tab => {
  for (;;) {
    const { data } = await jupyterapp.serviceManager.workspaces.fetch('survival');
    if (JSON.stringify(data['layout-restorer:data']?.main ?? '').includes(tab)) {
      return;
    }
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}"""


def tab(page: Page, name: str) -> Locator:
    return page.get_by_role("tab", name=name, exact=True)


def expect_live(desk: Desk, cell: int) -> None:
    """The card under the cell shows what comes, and goes on doing so."""
    tab(desk.page, f"{NAME}.ipynb").click()
    line = desk.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".widget-html").first
    expect(line).to_contain_text("running on cpu")
    expect(line).not_to_have_text(line.text_content() or "")
