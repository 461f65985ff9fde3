"""Who does not look is told, also with the panel's tab closed; and told no longer than it matters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import Lab
from .screen import panel_of
from .stage import Stage, a_claim, a_job
from .training import write_cells

NAME = "looked-at"
READS = 10_001  # ms, after which the server is asked again where no panel is open and a job goes on


@pytest.fixture
def stage(page: Page, lab: Lab) -> Iterator[Stage]:
    """A page with a notebook in front and no panel; its clock is the test's."""
    write_cells(lab, NAME)
    page.clock.install()
    stage = Stage(page)
    looked_at = a_job("digits", device="1", notebook=f"{lab.home}/{NAME}.ipynb")
    stage.show(jobs=[looked_at, a_job("letters", device="0")], claims=[mine()])
    stage.open()
    page.goto(lab.address(f"/tree/{NAME}.ipynb"))
    expect(page.locator(".jp-NotebookPanel:visible .jp-CodeCell")).to_have_count(1)
    expect(page.locator(".jp-gpufit-status")).to_contain_text("digits")
    yield stage
    expect(panel_of(page)).to_be_hidden()


def mine(*asked_by: str) -> dict[str, object]:
    return a_claim("me", "letters", "0", mine=True, job="id-of-letters", asked_by=list(asked_by))


def notices(stage: Stage) -> Locator:
    return stage.page.locator(".Toastify__toast")


def turn(stage: Stage, **status: object) -> None:
    """Let this be so from now on, and be read."""
    stage.show(**status)
    stage.page.clock.run_for(READS)


@pytest.mark.slow(18)
def test_who_asks_for_a_device_is_told_with_what_can_be_done(stage: Stage) -> None:
    turn(stage, claims=[mine("bob")])
    expect(notices(stage)).to_contain_text("bob asks for GPU 0, which letters holds.")
    expect(notices(stage).get_by_role("button", name="Release")).to_be_visible()
    notices(stage).get_by_role("button", name="Not now").click()
    expect(notices(stage)).to_have_count(0)
    assert stage.asked == []

    turn(stage, claims=[mine("bob", "eve")])
    expect(notices(stage)).to_contain_text("eve asks for GPU 0")
    notices(stage).get_by_role("button", name="Release").click()
    expect(notices(stage)).to_have_count(0)
    assert stage.asked == [("jobs/id-of-letters/release", {})]


@pytest.mark.slow(15)
def test_what_one_looks_at_is_not_told_and_what_went_well_not_for_long(stage: Stage) -> None:
    digits, letters = stage.status["jobs"]
    words = a_job("words")  # with one that goes on, readings come often
    turn(stage, jobs=[digits | {"state": "done"}, letters | {"state": "done"}, words])
    expect(notices(stage)).to_contain_text(["letters is done."])
    expect(notices(stage).locator(TIMER)).to_have_css("animation-duration", "8s")

    stage.page.evaluate("void jupyterapp.commands.execute('launcher:create')")
    expect(stage.page.locator(".jp-Launcher")).to_be_visible()
    turn(stage, jobs=[digits | {"state": "lost", "reason": "it was killed"}, words], claims=[mine("bob")])
    expect(notices(stage).filter(has_text="digits was lost: it was killed")).to_have_count(1)
    expect(notices(stage).filter(has_text="bob asks for GPU 0")).to_have_count(1)
    stage.page.evaluate(TIMERS_END, TIMER)

    expect(notices(stage).filter(has_text="letters is done.")).to_have_count(0)
    stage.page.evaluate(TIMERS_END, TIMER)
    expect(notices(stage)).to_have_count(2)  # what failed, and who asks, wait for a reader


TIMER = ".Toastify__progress-bar"
TIMERS_END = """timer => {
  for (const animation of document.getAnimations()) {
    if (animation.effect.target.matches(timer)) {
      animation.finish();
    }
  }
}"""
