"""Takes the README's pictures of one training: estimated, waiting, running, moved. Everything in them is real.

    python docs/frames.py [ada bob]        in a checkout with the panel built and Chromium installed; takes minutes

A JupyterLab with two CPU slots is started in a directory that is removed afterwards. `gpufit run` keeps both slots busy
until the notebook's cell has waited, then gives them back; as root it can do so as two other users, if they are named.
It writes docs/<number>-<name>-<theme>.png: look at each.
"""

from __future__ import annotations

import argparse
import io
import json
import pwd
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))

from tests.browser.conftest import CHROMIUM, HANGS, Lab, running_lab  # noqa: E402
from tests.browser.screen import button, command, job_card, open_panel  # noqa: E402
from tests.browser.training import KERNEL_IS_READY  # noqa: E402
from tests.kernels import environment  # noqa: E402
from tests.people import Town, Typed, make_shared, preload  # noqa: E402

SIZE = ViewportSize(width=1180, height=1000)
COLOURS = 256  # of a picture: its file is a third as large, and looks the same
SLOTS = "cpu:2x4GiB"

ABOUT = "# Digits\nWhich of ten classes does a point belong to? A small network learns it."
MAKES = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
points = torch.randn(20_000, 64)  # (N, D)
labels = (points @ torch.randn(64, 10)).argmax(1)  # (N,), in 0..9
loader = DataLoader(TensorDataset(points, labels), batch_size=128, shuffle=True)
wide = nn.Sequential(nn.Linear(64, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU())
model = nn.Sequential(wide, nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)"""
TRAINS = """model.to("cuda")
for epoch in range(50):
    for x, y in loader:
        x, y = x.to("cuda"), y.to("cuda")
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        accuracy = (logits.argmax(1) == y).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("users", nargs="*", help="two users who hold the slots at first; by default you")
    parser.add_argument("--to", type=Path, default=DOCS, help="the directory for the pictures")
    parser.add_argument("--themes", nargs="+", default=["light", "dark"])
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        home = Path(folder)
        home.chmod(0o755)
        make_shared(home / "lab")
        # Before the browser: its event loop would be in the way of a process that is forked to become another user.
        with busy(home, options.users) as holders, running_lab(home, more={"GPUFIT_DEVICES": SLOTS}) as lab:
            with sync_playwright() as playwright:
                quiet = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
                browser = playwright.chromium.launch(executable_path=CHROMIUM, args=quiet)
                page = browser.new_page(viewport=SIZE)
                page.set_default_timeout(HANGS)
                try:
                    tell(page, lab, holders, lambda name: take(page, options.to, name, options.themes))
                finally:
                    gpufit(home, "stop", "digits")  # or a worker would go on
                    browser.close()


def tell(page: Page, lab: Lab, holders: list[Typed], taken: Callable[[str], None]) -> None:
    """The training from its estimate to its second device."""
    (lab.home / "digits.ipynb").write_text(json.dumps(notebook(ABOUT, "%load_ext jupyter_gpufit", MAKES, "")))
    settings = lab.home / ".jupyter/lab/user-settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text('{"windowingMode": "none"}')  # all of it is there, also what was never scrolled to
    open_panel(page, lab, "/tree/digits.ipynb")
    page.get_by_role("tab", name="File Browser").click()  # closes it
    page.evaluate(KERNEL_IS_READY)
    page.evaluate("[...jupyterapp.shell.widgets('main')].filter(tab => !tab.context).forEach(tab => tab.dispose())")
    command(page, "notebook:run-all-cells")

    run_last_cell(page, "%%gpufit estimate\n" + TRAINS)
    expect(page.locator(".jp-OutputArea-output").filter(has_text="peak").first).to_be_visible()
    taken("1-estimate")

    run_last_cell(page, "%%gpufit train --name digits --widget\n" + TRAINS, wait=False)
    expect(job_card(page, "digits")).to_contain_text("queued")
    expect(job_card(page, "digits")).to_contain_text("has held")
    taken("2-queue")

    holders[0].signal(signal.SIGTERM)
    holders[0].end()
    expect(job_card(page, "digits")).to_contain_text("running on cpu:0")
    until_step(page, 600)  # its curves have a shape
    button(page, "Checkpoint digits").click()
    expect(job_card(page, "digits").locator("dl")).to_contain_text("savedstep", timeout=5 * HANGS)
    taken("3-run")

    holders[1].signal(signal.SIGTERM)
    holders[1].end()
    expect(button(page, "Move digits")).to_have_attribute("aria-disabled", "false")
    button(page, "Move digits").click()
    page.get_by_role("menuitem", name="cpu:1").click()
    expect(job_card(page, "digits")).to_contain_text("running on cpu:1", timeout=5 * HANGS)
    until_step(page, 1200)
    taken("4-move")


def run_last_cell(page: Page, source: str, *, wait: bool = True) -> None:
    """Type this into the last cell, and run it."""
    page.evaluate(
        """source => {
          const { content } = jupyterapp.shell.currentWidget;
          content.activeCellIndex = content.widgets.length - 1;
          content.activeCell.model.sharedModel.setSource(source);
        }""",
        source,
    )
    page.evaluate(f"{'' if wait else 'void '}jupyterapp.commands.execute('notebook:run-cell')")


def until_step(page: Page, step: int) -> None:
    """Wait until the training is so far."""
    page.wait_for_function(IS_THERE, arg=step, timeout=10 * HANGS)


IS_THERE = """step => {
  const told = /step ([\\d,]+)/.exec(document.querySelector('.jp-gpufit-job').innerText)?.[1] ?? '';
  return Number(told.replaceAll(',', '')) >= step;
}"""


FROM_THE_TOP = """cell => {
  cell.closest('.jp-WindowedPanel-outer').scrollTop = 0;
  cell.scrollIntoView({ block: 'nearest' });
}"""


@contextmanager
def busy(home: Path, users: list[str]) -> Iterator[list[Typed]]:
    """Both slots are held, the whole of each."""
    (home / "homes").mkdir(mode=0o755)
    town = Town(home / "lab", home / "homes", devices=SLOTS)
    uids: list[int | None] = [pwd.getpwnam(user).pw_uid for user in users]
    preload()
    try:
        for uid, device, name in zip(uids or [None, None], ("cpu:0", "cpu:1"), ("night-run", "sweep"), strict=True):
            holder = town.types("run", "--gpu", device, "--exclusive", "--name", name, "--", "sleep", "1000", uid=uid)
            holder.hear(f"runs on {device}")
        yield town.typed
    finally:
        for typed in town.typed:
            if typed.code is None:
                typed.signal(signal.SIGTERM)  # it ends what it runs
                typed.end()
            typed.clear_up()


def gpufit(home: Path, *arguments: str) -> str:
    env = environment(home, GPUFIT_LAB=str(home / "lab"), GPUFIT_DEVICES=SLOTS)
    command = [sys.executable, "-m", "jupyter_gpufit.terminal.cli", *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True).stdout


def take(page: Page, to: Path, name: str, themes: list[str]) -> None:
    """One picture in each theme."""
    for theme in in_theme(page, themes):
        page.locator(".jp-Notebook .jp-Cell").last.evaluate(FROM_THE_TOP)  # who runs a cell sees it at the top
        kept(page.screenshot(animations="disabled"), to / f"{name}-{theme}.png")


def in_theme(page: Page, themes: list[str]) -> Iterator[str]:
    """The same page in one theme after the other."""
    for theme in themes:
        command(page, "apputils:change-theme", theme=f"JupyterLab {theme.title()}")
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "light").lower())
        yield theme


def kept(shot: bytes, path: Path) -> None:
    """Keep a picture in a small file."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


def notebook(about: str, *sources: str) -> dict[str, Any]:
    texts: list[dict[str, Any]] = [{"id": "about", "cell_type": "markdown", "source": about, "metadata": {}}]
    cells: list[dict[str, Any]] = [
        {"id": f"c{i}", "cell_type": "code", "source": one, "metadata": {}, "outputs": [], "execution_count": None}
        for i, one in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": texts + cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


if __name__ == "__main__":
    main()
