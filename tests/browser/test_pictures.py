"""The panel and the page of a run, to be looked at: docs/ has copies of what this leaves in build/screenshots."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from .conftest import SCREENSHOTS, Lab
from .drawn import Drawn
from .screen import button, command, job_card, open_panel
from .stage import Stage
from .worlds import a_lab, a_log, a_notebook

PICTURE = ViewportSize(width=1180, height=990)


@pytest.mark.slow(22)
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.soak)])  # test_axe.py has both
def test_looks_well(page: Page, lab: Lab, theme: str) -> None:
    (lab.home / "finetune.ipynb").write_text(json.dumps(a_notebook()))
    page.set_viewport_size(PICTURE)
    stage = Stage(page)
    stage.show(**a_lab(str(lab.home)))
    Drawn().open(page)
    stage.write(*a_log())
    stage.open()
    panel = open_panel(page, lab, "/tree/finetune.ipynb")
    expect(page.locator(".jp-NotebookPanel .jp-Cell")).to_have_count(4)
    expect(page.get_by_role("heading", name="Fine-tuning")).to_be_visible()
    command(page, "apputils:change-theme", theme=f"JupyterLab {theme.title()}")
    expect(page.locator("body")).to_have_attribute("data-jp-theme-light", str(theme == "light").lower())
    page.get_by_role("tab", name="File Browser").click()  # closes it: the picture is of the panel
    if theme == "dark":
        button(page, "Open log of bert-run").click()
        expect(page.get_by_role("log")).to_contain_text("step 3100")
        button(page, "Move bert-run").click()
        expect(page.get_by_role("menuitem", name="GPU 3")).to_be_visible()
    expect(job_card(page, "bert-run")).to_contain_text("running on GPU 1")
    expect(job_card(page, "bert-run").get_by_role("img")).to_have_count(2)

    page.screenshot(path=SCREENSHOTS / f"panel-{theme}.png", animations="disabled")

    for text in panel.locator(".jp-gpufit-quiet, .jp-gpufit-button, .jp-gpufit-state, .jp-gpufit-chip").all()[:30]:
        assert contrast(text) >= 3, text.inner_text()  # greyed buttons included; other texts have more
    button(page, "bert-run").click()
    run = page.locator(".jp-gpufit-run")
    expect(run.get_by_role("img", name="power: 388 W on average")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / f"run-{theme}.png", animations="disabled")

    run.get_by_label("Compare with").select_option("id-of-words")
    loss = run.get_by_role("img", name=re.compile("^loss: bert-run .*; "))
    expect(loss.locator(".u-legend")).to_contain_text(re.compile("bert-run.*words"))
    loss.hover(position={"x": 300, "y": 90})
    page.screenshot(path=SCREENSHOTS / f"runs-{theme}.png", animations="disabled")
    command(page, "apputils:change-theme", theme="JupyterLab Light")


def contrast(text: Locator) -> float:
    """Of a text with what is behind it, as WCAG counts."""
    found: Any = text.evaluate(CONTRAST)
    return float(found)


CONTRAST = """node => {
  const parse = colour => (colour.match(/[0-9.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => [r, g, b]
    .map(part => part / 255)
    .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  let behind = node;
  let back = parse(getComputedStyle(behind).backgroundColor);
  while (back[3] === 0 && behind.parentElement) {
    behind = behind.parentElement;
    back = parse(getComputedStyle(behind).backgroundColor);
  }
  const [a, b] = [light(parse(getComputedStyle(node).color)), light(back)].sort((a, b) => b - a);
  return (a + 0.05) / (b + 0.05);
}"""
