"""Programs by others in JupyterLab: one line added, and Run All: `python bench/in_jupyterlab.py FOLDER [--only WORD]`.

FOLDER is as for bench/corpus.py. Each program is opened in a real JupyterLab in Chromium, as its author's notebook with
`%load_ext jupyter_gpufit` above and `%%gpufit train` on its training cell; all cells are run by the menu's command, and
the notebook is saved. The table says what its saved file shows; a picture of each is in build/in_jupyterlab.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from common import package_root, show_table, write_results
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

package_root()
from tests.browser.conftest import CHROMIUM, Lab, running_lab  # noqa: E402
from tests.browser.screen import command  # noqa: E402
from tests.browser.training import KERNEL_IS_READY  # noqa: E402
from tests.corpus.program import Program, read  # noqa: E402

PICTURES = Path(__file__).resolve().parents[1] / "build" / "in_jupyterlab"
SIZE = ViewportSize(width=1180, height=1000)
LONGEST = 600_000  # milliseconds
ALL_HAVE_RUN = """async () => {
  const { content, context, sessionContext } = jupyterapp.shell.currentWidget;
  await jupyterapp.commands.execute('notebook:run-all-cells');
  await sessionContext.session.kernel.requestExecute({ code: '' }).done;
  await context.save();
}"""
AT_THE_TRAINING = """async number => {
  const { content } = jupyterapp.shell.currentWidget;
  content.activeCellIndex = number;
  await content.scrollToItem(number, 'center');
  content.widgets[number].outputArea.node.scrollIntoView({ block: 'start' });
}"""


@dataclass(frozen=True)
class Shown:
    """What a notebook shows after Run All."""

    name: str
    cells: int
    ran: int
    error: str  # the first one
    status: str  # the line under the training cell
    seconds: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="programs whose name holds this word")
    options = parser.parse_args()
    PICTURES.mkdir(parents=True, exist_ok=True)
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for file in _files(options.folder):
            if options.only in file.stem:
                found.append(_opened(browser, file))
                print(found[-1], flush=True)
                # Now, should the next one end all.
                write_results("in_jupyterlab", [asdict(one) for one in found], said=False)
        browser.close()
    show_table(
        ("program", "cells", "run", "error", "under the training cell", "s"),
        [(one.name, one.cells, one.ran, one.error or "-", one.status, one.seconds) for one in found],
    )
    write_results("in_jupyterlab", [asdict(one) for one in found])


def _files(folder: Path) -> list[Path]:
    """Programs, and not the modules that lie beside them."""
    return sorted(file for file in folder.rglob("*.py") if "# %% train" in file.read_text(errors="replace"))


def _opened(browser: Browser, file: Path) -> Shown:
    program = read(file)
    with tempfile.TemporaryDirectory(prefix="gpufit-lab-") as folder:
        home = Path(folder) / "home"
        _put_beside(file, home)
        (home / f"{program.name}.ipynb").write_text(json.dumps(_notebook(program)))
        with running_lab(home, more={"OMP_NUM_THREADS": "1"}, cold=True) as lab:
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(LONGEST)
            began = time.monotonic()
            _run_all(page, lab, program)
            seconds = time.monotonic() - began
            page.screenshot(path=PICTURES / f"{program.name}.png")
            page.close()
        return _shown(program, json.loads((home / f"{program.name}.ipynb").read_text()), seconds)


def _put_beside(file: Path, home: Path) -> None:
    """What it imports and reads: its own folder, or those whose names begin with its name."""
    if file.parent.name == file.stem:
        shutil.copytree(file.parent, home)
        return
    home.mkdir()
    for beside in file.parent.glob(f"{file.stem}_*"):
        if beside.is_dir():
            shutil.copytree(beside, home / beside.name)


def _notebook(program: Program) -> dict[str, Any]:
    train = "%%gpufit train\n" + program.train
    sources = ["%load_ext jupyter_gpufit", *program.before, train, *program.after]
    cells = [
        {"id": f"c{i}", "cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _run_all(page: Page, lab: Lab, program: Program) -> None:
    page.goto(lab.address(f"/tree/{program.name}.ipynb"))
    page.evaluate(KERNEL_IS_READY)
    page.evaluate(ALL_HAVE_RUN)
    command(page, "application:toggle-left-area")
    page.evaluate(AT_THE_TRAINING, len(program.before) + 1)
    page.wait_for_timeout(1000)  # for the picture: what scrolls has come to rest


def _shown(program: Program, saved: dict[str, Any], seconds: float) -> Shown:
    cells = saved["cells"]
    errors = [one["ename"] + ": " + one["evalue"] for cell in cells for one in cell["outputs"] if "ename" in one]
    under = cells[len(program.before) + 1]["outputs"]
    lines = ["".join(one.get("data", {}).get("text/plain", "")) for one in under]
    status = next((line for line in lines if line[:1] in "✓✗■…▶" and line), "")
    ran = sum(cell["execution_count"] is not None for cell in cells)
    return Shown(program.name, len(cells), ran, errors[0][:160] if errors else "", status[:160], round(seconds, 1))


if __name__ == "__main__":
    main()
