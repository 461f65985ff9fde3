"""Two users of one machine, each in their own JupyterLab: what they see of each other, and that they cannot act."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.kernels import environment
from tests.people import ADA

from .conftest import HANGS, SIZE, Lab, running_lab
from .screen import button, job_card, open_panel, panel_of, section
from .training import ask, end, job_of, run_all, runs, write_notebook
from .users import as_user

HIS = "his"  # root's job
HERS = [
    sys.executable,
    "-m",
    "jupyter_gpufit.terminal.cli",
    "run",
    "--name",
    "hers",
    "--memory",
    "512MiB",
    "--",
    "sleep",
    "1000",
]


@pytest.fixture
def her_lab(lab: Lab, folder: Path) -> Iterator[Lab]:
    """As a hub would start it for her."""
    with running_lab(folder / "ada", base="/user/ada", user=ADA, more={"GPUFIT_LAB": lab.shared}) as hers:
        yield hers


@pytest.fixture
def her_page(browser: Browser, her_lab: Lab) -> Iterator[Page]:
    """With cookies and their XSRF value alone, as a hub's pages have them: the token stays out of it."""
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(HANGS)
    page.route("**/jupyter-gpufit/api/**", without_token)
    open_panel(page, her_lab)
    yield page
    page.close()


def without_token(route: Route) -> None:
    headers = route.request.headers
    headers.pop("authorization", None)
    route.continue_(headers=headers)


@pytest.fixture
def her_claim(her_lab: Lab) -> Iterator[None]:
    env = environment(her_lab.home, GPUFIT_LAB=her_lab.shared)
    with subprocess.Popen([*as_user(ADA), *HERS], env=env, cwd="/") as process:
        yield
        process.terminate()


@pytest.fixture
def his_job(page: Page, lab: Lab) -> Iterator[str]:
    """Its id."""
    write_notebook(lab, HIS)
    try:
        open_panel(page, lab, f"/tree/{HIS}.ipynb")
        run_all(page)
        runs(page, HIS)
        yield job_of(page, lab, HIS)["id"]
    finally:
        end(lab, HIS)


@pytest.mark.slow(38)
def test_each_sees_the_others_claim_and_can_only_ask(
    page: Page, lab: Lab, her_page: Page, her_lab: Lab, her_claim: None, his_job: str
) -> None:
    for one in (her_page, page):
        for device in one.locator(".jp-gpufit-row").all():
            device.click()
    expect(section(her_page, "Devices")).to_contain_text(f"root {HIS}")
    expect(section(page, "Devices")).to_contain_text(f"uid {ADA} hers")
    expect(her_page.locator(".jp-gpufit-job")).to_have_count(1)  # her own command's
    expect(job_card(her_page, HIS)).to_have_count(0)
    expect(job_card(page, "hers")).to_have_count(0)
    for verb in ("Checkpoint", "Release", "Move", "Stop", "Open log of"):
        expect(button(her_page, f"{verb} {HIS}")).to_have_count(0)
        expect(button(page, f"{verb} hers")).to_have_count(0)

    for verb in ("checkpoint", "release", "move", "stop", "resume"):
        assert ask(her_page, her_lab, f"jobs/{his_job}/{verb}", "POST").status == 403
    assert ask(her_page, her_lab, f"jobs/{his_job}/journal").status == 403

    button(her_page, f"Ask root to release {HIS}").click()
    expect(job_card(page, HIS)).to_contain_text(f"uid {ADA} would like this device.")
    expect(panel_of(her_page)).to_contain_text("Asked")
    runs(page, HIS)
