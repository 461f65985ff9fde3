"""A real JupyterLab with two CPU slots and a real browser. Each test leaves what it saw in build/screenshots."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

import pytest
from jupyter_core.paths import jupyter_path
from playwright.sync_api import Browser, Page, ViewportSize, expect, sync_playwright

from tests import warm
from tests.browser.stage import Stage
from tests.browser.users import as_user, lab_directory
from tests.kernels import environment
from tests.ports import free_ports

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SIZE = ViewportSize(width=1100, height=900)
TOKEN = "a-token"
PANEL_TAB = '.lm-TabBar-tab[data-id="jupyter-gpufit-panel"]'
HANGS = 180_000  # milliseconds: for what must come; never a measure of speed
STAYS = 30.0  # seconds after which a server that was asked to end is asked again

expect.set_options(timeout=HANGS)

_COLD = "from jupyterlab.labapp import main\nmain()"
_START = f"{warm.SERVER}\n{_COLD}"  # its kernels, and their workers, begin with torch imported: see tests/warm.py


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skipif(
        CHROMIUM is None, reason="NO BROWSER TEST RUNS: there is no Chromium. apt-get install chromium"
    )
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for mark in (pytest.mark.browser, pytest.mark.slow, missing):
                item.add_marker(mark)


@dataclass(frozen=True)
class Lab:
    """A JupyterLab that runs, in a home directory of its own."""

    url: str
    home: Path
    shared: str  # where claims and tickets meet

    def address(self, path: str = "") -> str:
        return f"{self.url}/lab{path}?token={TOKEN}&reset"


@contextmanager
def running_lab(
    home: Path,
    *,
    port: int = 0,
    base: str = "",
    user: int | None = None,
    more: Mapping[str, str] | None = None,
    cold: bool = False,
) -> Iterator[Lab]:
    if not any(Path(place, "jupyter-gpufit", "package.json").exists() for place in jupyter_path("labextensions")):
        pytest.skip("NO BROWSER TEST RUNS: the panel is not installed. pip install -e .")
    no_news = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    no_news.parent.mkdir(parents=True, exist_ok=True)
    no_news.write_text('{"fetchNews": "false"}')
    port = port or free_ports(1)[0]
    command = [
        *([] if user is None else as_user(user)),
        *(
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            _COLD if cold else _START,
            "--no-browser",
            "--allow-root",
            "--ip=127.0.0.1",
        ),
        f"--port={port}",
        *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={home}", f"--IdentityProvider.token={TOKEN}"),
        *("--LabApp.news_url=None", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        *("--LabApp.expose_app_in_browser=True", "--JupyterNotebookApp.expose_app_in_browser=True"),
        f"--ServerApp.base_url={base}/",
    ]
    env = environment(home, **{"GPUFIT_LAB": str(home / "lab"), **(more or {})})
    if user is not None:
        subprocess.run(["chown", "-R", str(user), home], check=True)
    no_terminal = subprocess.DEVNULL  # there Jupyter would ask whether an interrupt was meant
    with nullcontext({"env": env}) if cold or user is not None else warm.lent(env) as given:
        server = subprocess.Popen(command, stdin=no_terminal, stderr=subprocess.PIPE, text=True, **given)
    with server:
        assert server.stderr is not None
        log: list[str] = []
        try:
            for line in server.stderr:
                log.append(line)
                if f"127.0.0.1:{port}{base}/lab" in line:
                    break
            else:
                pytest.fail("JupyterLab did not start:\n" + "".join(log))
            Thread(target=log.extend, args=(server.stderr,), daemon=True).start()  # a full pipe would stop the server
            until_it_listens(port)
            yield Lab(f"http://127.0.0.1:{port}{base}", home, env["GPUFIT_LAB"])
        finally:
            end_server(server, log)


def end_server(server: subprocess.Popen[str], log: list[str]) -> None:
    """As somebody does it who presses Ctrl-C, and again where that was not enough.

    Where a page asked for a file or a folder just then, Jupyter's loop leaves anyio's thread of that request behind,
    and Python waits for it for ever: https://github.com/jupyterlab/jupyterlab/issues/10442. What we do is in no such
    thread (system/background.py).
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGABRT):  # the last one has Python say where it stands
        server.send_signal(number)
        try:
            server.wait(STAYS)
            break
        except subprocess.TimeoutExpired:
            continue
    else:
        server.kill()  # or this would wait for it for ever
    if server.returncode == -signal.SIGABRT:
        pytest.fail("The Jupyter server did not end:\n" + "".join(log))


def until_it_listens(port: int) -> None:
    """A Jupyter server tells its address before it listens there, and says nothing when it does."""
    until = time.monotonic() + HANGS / 1000
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_directory() as shared, running_lab(tmp_path_factory.mktemp("home"), more=shared) as lab:
        yield lab


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    quiet = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*quiet, "--disable-sync"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(HANGS)
    yield page
    keep_picture(page, request)
    page.close()


def keep_picture(page: Page, request: pytest.FixtureRequest) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{request.node.name.removeprefix('test_')}.png")


@pytest.fixture(scope="package")
def desk(browser: Browser, lab: Lab) -> Iterator[Stage]:
    """A page with the panel open that many tests use, since to load JupyterLab takes seconds."""
    page = browser.new_page(viewport=SIZE)
    page.set_default_timeout(HANGS)
    stage = Stage(page)
    stage.show()
    stage.open()
    page.goto(lab.address())
    page.locator(PANEL_TAB).click()
    yield stage
    page.close()


@pytest.fixture
def stage(desk: Stage, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """The page on which the server extension says what the test wants."""
    desk.reset()
    yield desk
    keep_picture(desk.page, request)
