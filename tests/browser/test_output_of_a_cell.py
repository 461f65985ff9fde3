"""What a reader sees under a cell that has run is, character for character, what the ordinary kernel leaves there."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from .conftest import Lab
from .test_widgets import output
from .training import run_cells, write_cells

NAME = "as-ever"
SHOWS = """
import sys
from time import sleep
from tqdm import tqdm
for e in range(3):
    for i in tqdm(range(10), desc=f"epoch {e}", leave=False):
        sleep(0.02)
    print("epoch", e)
for i in tqdm(range(5)):
    pass
print("a warning", file=sys.stderr, flush=True)  # or the ordinary kernel may show it below the end
print("the end")
"""
OF_A_RUN = re.compile(
    r"(?<=\[)[^\]\n]*it/s(?=\])| +$", re.MULTILINE
)  # a bar's times, and the blanks that wiped one out


def test_bars_and_prints_are_left_as_by_the_ordinary_kernel(page: Page, lab: Lab) -> None:
    write_cells(lab, NAME, SHOWS, f"%%gpufit train --name {NAME} --memory 1GiB{SHOWS}")
    page.goto(lab.address(f"/tree/{NAME}.ipynb"))

    run_cells(page, 0, 1, 2)
    expect(output(page, 2)).to_contain_text(f"{NAME}: done")
    expect(output(page, 2)).to_contain_text("the end")

    ours, *shown = seen(output(page, 2))
    assert f"{NAME}: done" in ours[1] and ours[1].count("\n") == 0
    assert shown == seen(output(page, 1))
    assert [text for _, text in shown if "epoch" in text] == [f"epoch {e}\n" for e in range(3)]
    assert shown[-2:] == [("stderr", "100%|██████████| 5/5 []\na warning\n"), ("stdout", "the end\n")]


def seen(cell: Locator) -> list[tuple[str, str]]:
    """Each output below it: how it is drawn, and its text."""
    outputs: list[list[str]] = cell.locator(".jp-OutputArea-output").evaluate_all(DRAWN)
    return [(kind.removeprefix("application/vnd.jupyter."), OF_A_RUN.sub("", text)) for kind, text in outputs]


DRAWN = "outputs => outputs.map(one => [one.dataset.mimeType, one.innerText])"
