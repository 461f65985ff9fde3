"""Takes the pictures of all that is not the panel in JupyterLab: a card, Notebook 7, a terminal, notices.

    python docs/stills.py       in a checkout with the panel built, Chromium and Notebook 7 installed; takes a minute

The first three are of one real training on one of two CPU slots, with commands of `gpufit run` on the other one and in
the queue. The notices are JupyterLab's own, of example data, as in the pictures of the panel. It writes
docs/<name>-<theme>.png: look at each.
"""

from __future__ import annotations

import argparse
import fcntl
import html
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from frames import ABOUT, MAKES, SLOTS, TRAINS, gpufit, in_theme, kept, notebook, until_step
from playwright.sync_api import Browser, FloatRect, Locator, Page, ViewportSize, expect, sync_playwright

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from tests.browser.conftest import CHROMIUM, HANGS, TOKEN, Lab, running_lab  # noqa: E402
from tests.browser.screen import job_card, panel_of  # noqa: E402
from tests.browser.stage import NOW, Stage  # noqa: E402
from tests.browser.training import KERNEL_IS_READY, run_all  # noqa: E402
from tests.browser.worlds import a_lab, a_notebook  # noqa: E402
from tests.kernels import environment  # noqa: E402
from tests.people import Town, make_shared, preload  # noqa: E402

SEVENTH = ViewportSize(width=1180, height=1000)
NOTICED = ViewportSize(width=1000, height=700)
AROUND = 16  # pixels of the page around JupyterLab's notices
COLUMNS, LINES = 100, 30
AWHILE = 1500  # steps, after which a curve has a shape


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=DOCS, help="the directory for the pictures")
    parser.add_argument("--themes", nargs="+", default=["light", "dark"])
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        home = Path(folder)
        make_shared(home / "lab")
        with others(home), running_lab(home, more={"GPUFIT_DEVICES": SLOTS}) as lab, chromium() as browser:
            try:
                a_training(browser, lab, options.to, options.themes)
            finally:
                gpufit(home, "stop", "digits")  # or a worker would go on
            notices(browser, lab, options.to, options.themes)


@contextmanager
def others(home: Path) -> Iterator[None]:
    """One slot is held, and somebody waits for the whole of one."""
    town = Town(home / "lab", home / "homes", devices=SLOTS)
    (home / "homes").mkdir()
    preload()
    try:
        holds = town.types("run", "--gpu", "cpu:1", "--memory", "3GiB", "--name", "sweep", "--", "sleep", "1000")
        holds.hear("runs on cpu:1")
        waits = town.types("run", "--gpu", "cpu:1", "--exclusive", "--name", "nightly", "--", "sleep", "1000")
        waits.hear("has held")
        yield
    finally:
        for typed in town.typed:
            typed.signal(signal.SIGTERM)
            typed.end()
            typed.clear_up()


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
        yield browser
        browser.close()


def page_of(browser: Browser, size: ViewportSize) -> Page:
    page = browser.new_page(viewport=size)
    page.set_default_timeout(HANGS)
    return page


# A training -----------------------------------------------------------------------------------------------------------


def a_training(browser: Browser, lab: Lab, to: Path, themes: list[str]) -> None:
    """In Notebook 7 with its card and the panel; then what a terminal beside it shows."""
    train = f"%%gpufit train --name digits --widget\n{TRAINS}"
    (lab.home / "digits.ipynb").write_text(json.dumps(notebook(ABOUT, "%load_ext jupyter_gpufit", MAKES, train)))
    page = page_of(browser, SEVENTH)
    page.goto(f"{lab.url}/notebooks/digits.ipynb?token={TOKEN}")
    page.wait_for_function("() => window.jupyterapp?.shell?.currentWidget?.context")
    page.evaluate("async () => { await jupyterapp.restored; await jupyterapp.commands.execute('gpufit:show'); }")
    expect(panel_of(page)).to_be_visible()
    page.evaluate(KERNEL_IS_READY)
    run_all(page)
    expect(job_card(page, "digits")).to_contain_text("running on cpu:")
    until_step(page, AWHILE)
    card = page.locator(".jp-gpufit-under-cell")
    for theme in in_theme(page, themes):
        card.scroll_into_view_if_needed()
        kept(page.screenshot(animations="disabled"), to / f"notebook7-{theme}.png")
        kept(card.screenshot(animations="disabled"), to / f"card-{theme}.png")
    shown = on_a_terminal(lab.home, "status", "--watch")
    page.close()
    for theme in themes:
        page = page_of(browser, ViewportSize(width=1000, height=600))
        page.set_content(drawn(shown, theme))
        kept(page.locator("pre").screenshot(), to / f"terminal-{theme}.png")
        page.close()


def on_a_terminal(home: Path, *arguments: str) -> str:
    """What stands on a terminal's screen after a while, with its colours."""
    env = environment(home, GPUFIT_LAB=str(home / "lab"), GPUFIT_DEVICES=SLOTS, TERM="xterm-256color")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments]
    with subprocess.Popen(command, env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written, until = "", time.monotonic() + 8.0
        while (left := until - time.monotonic()) > 0:
            if select.select([ours], [], [], left)[0]:
                written += os.read(ours, 1 << 16).decode(errors="replace")
        os.write(ours, b"q")
        process.wait()
    os.close(ours)
    return written.split("\x1b[H")[-1].replace("\r\n", "\n")  # the last time that it was drawn


# As terminals have them: text, ground, and the colours that colours.py writes.
LOOKS = {
    "light": {"ground": "#ffffff", "": "#24292f", "31": "#cf222e", "32": "#116329", "33": "#7d4e00", "36": "#1b7c83"},
    "dark": {"ground": "#0d1117", "": "#e6edf3", "31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "36": "#39c5cf"},
}
_CODE = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])")


def drawn(shown: str, theme: str) -> str:
    """The screen as a page."""
    look, parts, style, at = LOOKS[theme], [], "", 0
    for found in _CODE.finditer(shown):
        parts.append(f'<span style="{style}">{html.escape(shown[at : found.start()])}</span>')
        at = found.end()
        if found[2] == "m":
            style = _style(found[1], look)
    parts.append(f'<span style="{style}">{html.escape(shown[at:])}</span>')
    plain = f"margin:0; display:inline-block; padding:14px 18px; background:{look['ground']}; color:{look['']};"
    return f'<pre style="{plain} font:14px/17px DejaVu Sans Mono, monospace">{"".join(parts)}</pre>'


def _style(code: str, look: dict[str, str]) -> str:
    match code:
        case "1":
            return "font-weight:bold"
        case "2":
            return "opacity:0.65"
    return f"color:{look[code]}" if code in look and code else ""


# Notices --------------------------------------------------------------------------------------------------------------


def notices(browser: Browser, lab: Lab, to: Path, themes: list[str]) -> None:
    """Somebody asks for a device while another of one's jobs ends."""
    (lab.home / "finetune.ipynb").write_text(json.dumps(a_notebook()))
    page = page_of(browser, NOTICED)
    stage = Stage(page)
    day = a_lab(str(lab.home))
    words = next(job for job in day["jobs"] if job["name"] == "words")
    going_on = [job for job in day["jobs"] if job["name"] != "words"]
    runs = words | {"state": "running", "device": "3", "since": NOW - 60}
    stage.show(**day | {"jobs": [*going_on, runs]})
    stage.open()
    page.goto(lab.address("/tree/finetune.ipynb"))
    expect(page.locator(".jp-gpufit-status")).to_contain_text("bert-run")
    page.get_by_role("tab", name="File Browser").click()  # closes it
    asked = [claim | ({"asked_by": ["bob"]} if claim["mine"] else {}) for claim in day["claims"]]
    for theme in in_theme(page, themes):
        stage.show(**day | {"jobs": [*going_on, runs]})
        expect(toasts(page)).to_have_count(0)
        stage.show(**day | {"jobs": [*going_on, words], "claims": asked})
        expect(toasts(page)).to_have_count(2)
        page.wait_for_function(RESTS)
        # Not without animations: the end of the one that closes a notice closes it.
        kept(page.screenshot(clip=corner(page)), to / f"notices-{theme}.png")


def corner(page: Page) -> FloatRect:
    """Down to the right: the notices, and what is about them."""
    first = toasts(page).first.bounding_box()
    assert first is not None
    x, y = first["x"] - AROUND, first["y"] - AROUND
    return FloatRect(x=x, y=y, width=NOTICED["width"] - x, height=NOTICED["height"] - y)


# Notices come in from below.
RESTS = """() => document.getAnimations().every(one =>
  one.playState !== 'running' || one.effect.target.matches('.Toastify__progress-bar'))"""


def toasts(page: Page) -> Locator:
    return page.locator(".Toastify__toast")


if __name__ == "__main__":
    main()
