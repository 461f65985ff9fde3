"""The panel, in a real JupyterLab and a real browser. Each test leaves what it saw in build/screenshots."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from jupyter_core.paths import jupyter_path
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect, sync_playwright

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZE = ViewportSize(width=1100, height=620)
TOKEN = "a-token"
STATUS = "**/jupyter-gpufit/api/status*"
GIB = 1 << 30
NOW = 1_800_000_000.0

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER TEST RUNS: there is no Chromium. apt-get install chromium"),
]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a JupyterLab with two CPU slots, in a home directory of its own."""
    if not any(Path(place, "jupyter-gpufit", "package.json").exists() for place in jupyter_path("labextensions")):
        pytest.skip("NO BROWSER TEST RUNS: the panel is not installed. pip install -e .")
    home = tmp_path_factory.mktemp("home")
    no_news = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    no_news.parent.mkdir(parents=True)
    no_news.write_text('{"fetchNews": "false"}')
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={home}", f"--IdentityProvider.token={TOKEN}"),
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
    ]
    env = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "GPUFIT", "XDG"))}
    env |= {"HOME": str(home), "GPUFIT_DEVICES": "cpu:2x4GiB"}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            log = []
            for line in server.stderr:
                log.append(line)
                if f"127.0.0.1:{port}/lab" in line:
                    break
            else:
                pytest.fail("JupyterLab did not start:\n" + "".join(log))
            Thread(target=server.stderr.read, daemon=True).start()  # a full pipe would stop the server
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    page = browser.new_page(viewport=SIZE)
    yield page
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{request.node.name.removeprefix('test_')}.png")
    page.close()


def open_panel(page: Page, lab: str) -> Locator:
    page.goto(f"{lab}/lab?token={TOKEN}&reset")
    tab(page).click()
    return page.get_by_role("region", name="GPUs and jobs")


def tab(page: Page) -> Locator:
    return page.locator('.lm-TabBar-tab[data-id="jupyter-gpufit-panel"]')


def answer_with(page: Page, **status: Any) -> None:
    """Let the server extension say this instead of what it sees."""
    status = {"version": "0.1.0", "devices": [], "jobs": [], "problem": "", "time": NOW} | status
    page.route(STATUS, lambda route: route.fulfill(json=status))


def a_gpu(index: int, **said: Any) -> dict[str, Any]:
    gpu = {"uuid": f"GPU-{index}", "label": str(index), "name": "NVIDIA H200", "kind": "gpu", "reserved": 0}
    gpu |= {"total": 80 * GIB, "free": 80 * GIB, "processes": [], "utilisation": 0, "temperature": 31, "problem": ""}
    return gpu | said


def a_job(name: str, **said: Any) -> dict[str, Any]:
    job = {"id": f"id-of-{name}", "name": name, "state": "running", "reason": "", "since": NOW, "device": "", "step": 0}
    return job | said


def test_shows_both_slots(page: Page, lab: str) -> None:
    panel = open_panel(page, lab)

    for label in ("cpu:0", "cpu:1"):
        meter = panel.get_by_role("meter", name=f"Memory of {label}")
        expect(meter).to_have_attribute("aria-valuetext", "0 B of 4.0 GiB used")
    expect(panel).to_contain_text("None yet. Put %%gpufit train on top of a cell")


def test_shows_what_a_gpu_tells(page: Page, lab: str) -> None:
    processes = [{"pid": 7, "user": "ada", "bytes": 10 * GIB}, {"pid": 8, "user": "bob", "bytes": None}]
    busy = a_gpu(0, free=68 * GIB, reserved=GIB, processes=processes, utilisation=37, temperature=61)
    full = a_gpu(1, free=2 * GIB, processes=[{"pid": 9, "user": "carol", "bytes": 78 * GIB}], utilisation=100)
    lost = a_gpu(2, free=0, utilisation=None, temperature=None, problem="GPU is lost: it has fallen off the bus.")
    answer_with(page, devices=[busy, full, lost])

    panel = open_panel(page, lab)

    expect(panel.get_by_role("meter", name="Memory of 0")).to_have_attribute(
        "aria-valuetext", "11.0 GiB of 80.0 GiB used"
    )
    expect(panel).to_contain_text("37 % busy, 61 °C")
    expect(panel).to_contain_text("ada 10.0 GiB, bob")
    expect(panel).to_contain_text("it has fallen off the bus")
    expect(panel.get_by_role("meter", name="Memory of 2")).to_have_count(0)


def test_shows_what_goes_on_before_what_has_ended(page: Page, lab: str) -> None:
    going = a_job("digits", device="cpu:0", step=1200, since=NOW - 185)
    waiting = a_job("letters", state="queued", reason="Both slots are held by ada.", since=NOW - 4)
    ended = a_job("words", state="failed", reason="ValueError: no words", since=NOW - 7440)
    answer_with(page, devices=[a_gpu(0)], jobs=[going, waiting, ended])

    items = open_panel(page, lab).get_by_role("region", name="My jobs").get_by_role("listitem")

    expect(items).to_have_count(3)
    expect(items.nth(0)).to_contain_text("Both slots are held by ada.")
    expect(items.nth(1)).to_contain_text("cpu:0, step 1200, for 3 min 5 s")
    expect(items.nth(2)).to_contain_text("2 h 4 min ago")


def test_shows_what_others_wrote_as_text(page: Page, lab: str) -> None:
    bold = "<b>bold</b>"
    answer_with(page, devices=[a_gpu(0, name=bold)], jobs=[a_job(bold)], problem=bold)

    panel = open_panel(page, lab)

    expect(panel.get_by_text(bold)).to_have_count(3)
    expect(panel.locator("b")).to_have_count(0)


def test_says_that_the_server_extension_is_missing(page: Page, lab: str) -> None:
    page.route(STATUS, lambda route: route.fulfill(status=404))

    panel = open_panel(page, lab)

    expect(panel.get_by_role("status")).to_contain_text("jupyter server extension enable jupyter_gpufit")


def test_keeps_the_last_reading_while_the_server_is_away(page: Page, lab: str) -> None:
    panel = open_panel(page, lab)
    expect(panel.get_by_role("meter")).to_have_count(2)

    page.route(STATUS, lambda route: route.abort())

    expect(panel.get_by_role("status").first).to_contain_text("The Jupyter server does not answer.")
    expect(panel.get_by_role("meter")).to_have_count(2)


def test_rests_while_it_is_hidden(page: Page, lab: str) -> None:
    page.clock.install()
    panel = open_panel(page, lab)
    expect(panel.get_by_role("meter")).to_have_count(2)
    tab(page).click()  # closes it
    expect(panel).to_be_hidden()
    asked = []
    page.on("request", lambda request: asked.append(request.url))

    page.clock.run_for(60_000)
    assert [url for url in asked if "jupyter-gpufit" in url] == []

    with page.expect_request(STATUS):  # at once, not at the next tick
        tab(page).click()
