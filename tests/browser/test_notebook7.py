"""Notebook 7, which JupyterLab's server serves beside: the panel, the card, a cell's output after a reload."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from playwright.sync_api import Locator, Page, expect

from .conftest import TOKEN, Lab
from .screen import button, job_card, panel_of
from .stage import Stage, a_claim, a_gpu, a_job
from .test_axe import AXE, CARD, FINDINGS, PARTS, THEMES, wear
from .training import KERNEL_IS_READY, end, run_all, write_notebook

NAME = "seventh"

pytestmark = pytest.mark.skipif(
    find_spec("notebook") is None, reason="NOT TESTED: Notebook 7, which is not installed. pip install notebook"
)


def opened(page: Page, lab: Lab) -> Locator:
    """The notebook's page, with the panel beside it as its View menu opens it; what its training cell shows."""
    page.goto(f"{lab.url}/notebooks/{NAME}.ipynb?token={TOKEN}")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context")
    page.evaluate("async () => { await jupyterapp.restored; await jupyterapp.commands.execute('gpufit:show'); }")
    expect(panel_of(page)).to_be_visible()
    return page.locator(".jp-CodeCell").nth(1).locator(".jp-Cell-outputArea")


@pytest.mark.slow(11)
def test_who_asks_for_a_device_is_told_with_what_can_be_done(page: Page, lab: Lab) -> None:
    write_notebook(lab, NAME)
    stage = Stage(page)
    stage.open()
    opened(page, lab)
    digits = a_claim("me", "digits", "0", mine=True, job="id-of-digits", asked_by=["bob"])
    stage.show(jobs=[a_job("digits", device="0")], devices=[a_gpu(0)], claims=[digits])

    toast = page.locator(".Toastify__toast").filter(has_text="bob asks for GPU 0, which digits holds.")
    expect(toast.get_by_role("button", name="Not now")).to_be_visible()
    toast.get_by_role("button", name="Release").click()

    expect(toast).to_have_count(0)
    assert stage.asked == [("jobs/id-of-digits/release", {})]


@pytest.mark.slow(24)
def test_panel_card_and_output_after_a_reload(page: Page, lab: Lab) -> None:
    write_notebook(lab, NAME, "--widget")
    try:
        output = opened(page, lab)
        page.evaluate(KERNEL_IS_READY)
        run_all(page)
        expect(job_card(page, NAME)).to_contain_text("running on cpu:")
        expect(output.get_by_role("button", name="Checkpoint")).to_be_visible()  # the card's own
        expect(output).to_contain_text("step 50\n")
        if AXE.exists():  # else test_axe.py says that this is not tested
            page.add_script_tag(path=AXE)
            for theme in (*THEMES[1:], THEMES[0]):
                wear(page, theme)
                assert [page.evaluate(FINDINGS, part) for part in (PARTS[0], CARD)] == [[], []]
        page.evaluate("async () => { await jupyterapp.commands.execute('docmanager:save'); }")
        page.goto("about:blank")

        output = opened(page, lab)

        expect(output).to_contain_text("step 100\n")
        assert output.inner_text().count("step 50\n") == 1
        button(page, NAME).click()  # opens the page of the run
        expect(page.locator(".jp-gpufit-run")).to_be_visible()
        page.wait_for_function("() => document.querySelector('.jp-gpufit-run').clientHeight > 300")
        page.locator(".jp-gpufit-run").get_by_role("button", name="All runs").click()
        expect(page.get_by_role("table").filter(has_text=NAME)).to_be_visible()  # before the page that stood there
    finally:
        end(lab, NAME)
