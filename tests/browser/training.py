"""A notebook whose cell trains until it is told to end, in a real kernel and worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import APIResponse, Page, expect

from .conftest import TOKEN, Lab
from .screen import job_card, open_panel

LOADS = "%load_ext jupyter_gpufit"
TRAINS = """%%gpufit train --name {name} --memory 1GiB {options}
import pathlib, time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
step = 0
while not pathlib.Path("{name}.enough").exists():
    step += 1
    loss = model(torch.ones(8, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
    if step % 50 == 0:
        print("step", step)
print("it had", step, "steps")"""


def write_notebook(lab: Lab, name: str, options: str = "", *more: str) -> None:
    """The notebook: the extension, the cell that trains, and what cells there are to be below it."""
    write_cells(lab, name, TRAINS.format(name=name, options=options), *more)


def write_cells(lab: Lab, name: str, *sources: str) -> None:
    """The notebook: the extension, and these cells below."""
    (lab.home / f"{name}.enough").unlink(missing_ok=True)
    cells: list[dict[str, object]] = [
        {"id": f"c{i}", "cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for i, source in enumerate((LOADS, *sources))
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    (lab.home / f"{name}.ipynb").write_text(json.dumps(notebook))


@contextmanager
def blocking(page: Page, lab: Lab, name: str) -> Iterator[str]:
    """A cell that blocks its kernel and trains, with the panel beside it; its name."""
    write_notebook(lab, name)
    try:
        open_panel(page, lab, f"/tree/{name}.ipynb")
        run_all(page)
        runs(page, name)
        yield name
    finally:
        end(lab, name)  # or a worker would train for ever


def run_all(page: Page) -> None:
    page.evaluate(KERNEL_IS_READY)
    page.evaluate("void jupyterapp.commands.execute('notebook:run-all-cells')")


def run_cells(page: Page, *cells: int) -> None:
    """Run these cells of the notebook, one after the other."""
    page.evaluate(KERNEL_IS_READY)
    for cell in cells:
        page.evaluate(RUN_CELL, cell)


# Idle is not yet ready: a cell that is sent too early stays at [*] for ever.
KERNEL_IS_READY = """async () => {
  for (;;) {
    const { sessionContext } = window.jupyterapp?.shell.currentWidget ?? {};
    if (sessionContext) {
      await sessionContext.ready;
      await sessionContext.session.kernel.info;
      return;
    }
    await new Promise(resolve => requestAnimationFrame(resolve));
  }
}"""

RUN_CELL = """cell => {
  jupyterapp.shell.currentWidget.content.activeCellIndex = cell;
  void jupyterapp.commands.execute('notebook:run-cell');
}"""


def end(lab: Lab, name: str) -> None:
    Path(lab.home, f"{name}.enough").touch()


def runs(page: Page, name: str) -> None:
    expect(job_card(page, name)).to_contain_text("running on cpu:")
    expect(job_card(page, name)).to_contain_text(re.compile("step [1-9]"))


def ask(page: Page, lab: Lab, path: str, method: str = "GET") -> APIResponse:
    """What the server extension answers to somebody who is not the page."""
    headers = {"Authorization": f"token {TOKEN}"}
    return page.request.fetch(f"{lab.url}/jupyter-gpufit/api/{path}", method=method, headers=headers)


def job_of(page: Page, lab: Lab, name: str) -> dict[str, Any]:
    """The newest job of this name."""
    found: dict[str, Any] = [job for job in ask(page, lab, "status").json()["jobs"] if job["name"] == name][-1]
    return found
