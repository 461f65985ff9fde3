"""Who reads with their ears, works by keyboard or has little room: axe finds nothing, in no theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from .conftest import SCREENSHOTS, SIZE, Lab
from .drawn import Drawn
from .screen import button, command, fold
from .stage import Stage
from .training import end, run_all, write_cells
from .worlds import a_lab, a_log

AXE = Path(__file__).parents[2] / "labextension" / "node_modules" / "axe-core" / "axe.min.js"
THEMES = ("JupyterLab Light", "JupyterLab Dark", "JupyterLab Dark High Contrast")
AT_200_PERCENT = ViewportSize(width=SIZE["width"] // 2, height=SIZE["height"] // 2)  # what is left of the same window
PARTS = (".jp-gpufit-panel", ".jp-gpufit-run")
MORE_STOPS = 20  # the browser's own: a line of the log that is wider than the log


@pytest.fixture
def everything(stage: Stage) -> Iterator[Page]:
    """The panel with all of it unfolded, and the page of a run beside it."""
    drawn = Drawn().open(stage.page)
    lab = {**a_lab(), "time": stage.status["time"] + 0.01}
    for job in lab["jobs"]:
        job["loss"] = job["loss"] and {**job["loss"], "value": 3.1974e-14}  # as wide as a figure can be
    stage.show(**lab)
    page = stage.page
    button(page, "bert-run").click()
    for title in ("Ended", "Details of GPU 1", "Details of GPU 2"):
        fold(page, title).click()
    stage.write(*a_log())
    expect(page.locator(".jp-gpufit-run").get_by_role("log")).to_contain_text("step 3100")
    yield page
    page.set_viewport_size(SIZE)
    command(page, "apputils:change-theme", theme=THEMES[0])
    drawn.close(page)


@pytest.mark.slow(28)
def test_all_can_be_read_and_reached(everything: Page) -> None:
    if not AXE.exists():
        pytest.skip("NOT TESTED: whether all can use the panel. npm ci --prefix labextension")
    page = everything
    page.add_script_tag(path=AXE)
    found: list[str] = []
    for theme in THEMES:
        wear(page, theme)
        word = theme.split()[-1].lower()
        found += seen(page, word)

        page.set_viewport_size(AT_200_PERCENT)
        command(page, "application:toggle-left-area")
        found += seen(page, f"{word} at 200 percent")
        command(page, "application:toggle-left-area")
        page.set_viewport_size(SIZE)

        for part in PARTS:
            page.locator(part).evaluate(NARROW)
        found += seen(page, f"{word} at 250 px")
        assert page.locator(PARTS[0]).evaluate(SHORTENED) == []
        for part in PARTS:
            page.locator(part).evaluate(AS_BEFORE)
    assert "\n".join(found) == ""

    for part in PARTS:
        wanted = page.locator(part).evaluate(REACHABLE)
        assert len(wanted) > 15
        missed = wanted
        for _ in range(len(wanted) + MORE_STOPS):
            if not (missed := page.locator(part).evaluate(MISSED)):
                break
            page.keyboard.press("Tab")
        assert missed == []


def test_the_table_of_runs_a_log_and_a_question_can_be_read(everything: Page) -> None:
    if not AXE.exists():
        pytest.skip("NOT TESTED: whether all can use the log. npm ci --prefix labextension")
    page = everything
    page.add_script_tag(path=AXE)
    command(page, "gpufit:runs")
    expect(page.get_by_role("region", name="Table of runs")).to_be_visible()
    found = looked_at(page, "the table", ".jp-gpufit-run[aria-label='All my runs']")
    command(page, "gpufit:log", job="id-of-bert-run", name="bert-run")
    log = ".jp-gpufit-log[aria-label='Log of bert-run']"
    expect(page.locator(log).get_by_role("log")).to_contain_text("step 3100")
    found += looked_at(page, "a log", log)
    button(page, "Stop bert-run").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    found += looked_at(page, "a question", ".jp-Dialog-content")
    page.keyboard.press("Escape")
    assert "\n".join(found) == ""


CARD = ".jp-gpufit-under-cell"
CARDS = "card-to-read"
WITH_A_CARD = f"""%%gpufit train --name {CARDS} --memory 1GiB --widget
import pathlib, time
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1_000_000):
    loss = model(torch.ones(8, 4)).square().mean()
    accuracy = 1 - loss.item()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
    if pathlib.Path("{CARDS}.enough").exists():
        break"""


@pytest.fixture
def card(page: Page, lab: Lab) -> Iterator[Page]:
    """A cell that runs, with its card below it, and the question of a stop in the card."""
    write_cells(lab, CARDS, WITH_A_CARD)
    try:
        page.goto(lab.address(f"/tree/{CARDS}.ipynb"))
        run_all(page)
        of_curves = page.locator(CARD).get_by_role("img")
        expect(of_curves).to_have_count(2)
        page.locator(CARD).get_by_role("button", name="Stop", exact=True).click()
        expect(page.locator(CARD).get_by_role("button", name="Save and stop")).to_be_visible()
        yield page
    finally:
        end(lab, CARDS)


@pytest.mark.slow(24)
def test_a_card_under_a_cell_can_be_read_and_reached(card: Page) -> None:
    if not AXE.exists():
        pytest.skip("NOT TESTED: whether all can use the card. npm ci --prefix labextension")
    page = card
    page.add_script_tag(path=AXE)
    found: list[str] = []
    for theme in THEMES:
        wear(page, theme)
        word = f"card, {theme.split()[-1].lower()}"
        found += seen(page, word, [CARD])

        page.set_viewport_size(AT_200_PERCENT)
        command(page, "application:toggle-left-area")
        found += seen(page, f"{word} at 200 percent", [CARD])
        command(page, "application:toggle-left-area")
        page.set_viewport_size(SIZE)

        page.locator(CARD).evaluate(NARROW)
        found += seen(page, f"{word} at 250 px", [CARD])
        page.locator(CARD).evaluate(AS_BEFORE)
    assert "\n".join(found) == ""

    wanted = page.locator(CARD).evaluate(REACHABLE)
    assert len(wanted) > 8  # three curves to choose from, what the job can do, and the answers
    for _ in range(len(wanted) + MORE_STOPS):
        if not page.locator(CARD).evaluate(MISSED):
            break
        page.keyboard.press("Tab")
    assert page.locator(CARD).evaluate(MISSED) == []
    page.locator(CARD).get_by_role("button", name="Go on", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(CARD).get_by_role("button", name="Save and stop")).to_be_hidden()


def looked_at(page: Page, what: str, part: str) -> list[str]:
    found: list[str] = []
    for theme in THEMES:
        wear(page, theme)
        found += seen(page, f"{what}, {theme.split()[-1].lower()}", [part])
    return found


def wear(page: Page, theme: str) -> None:
    """Have the page in this theme. Behind JupyterLab's splash axe would see no colour of a text."""
    command(page, "apputils:change-theme", theme=theme)
    expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
    expect(page.locator("#jupyterlab-splash")).to_have_count(0)


def seen(page: Page, how: str, parts: Sequence[str] = PARTS) -> list[str]:
    """What axe finds, and what is cut off."""
    page.locator(parts[-1]).scroll_into_view_if_needed()
    page.evaluate(TWO_FRAMES)
    page.screenshot(path=SCREENSHOTS / f"axe {how}.png")
    found = []
    for part in parts:
        found += [f"{how}: cut off: {one}" for one in page.locator(part).evaluate(CUT_OFF)]
        found += [f"{how}: {one}" for one in page.evaluate(FINDINGS, part)]
    return found


FINDINGS = """async part => (await axe.run(part)).violations.flatMap(({ id, help, nodes }) =>
  nodes.map(({ html, target, any, all, none }) => {
    const [why] = [...any, ...all, ...none];
    return `${id}: ${help}: ${html.slice(0, 160)}: ${target}: ${why?.message}`;
  })
)"""

# As at 200 % on a laptop, too.
NARROW = """node => {
  node.before = node.style.cssText;
  node.style.setProperty('width', '250px', 'important');
  node.style.setProperty('min-width', '0', 'important');
}"""
AS_BEFORE = "node => { node.style.cssText = node.before; }"
# A figure that ends in dots.
SHORTENED = """part => [...part.querySelectorAll('.jp-gpufit-figures dd, .jp-gpufit-progress + * > *')]
  .filter(node => node.scrollWidth > node.clientWidth)
  .map(node => node.innerText)"""
TWO_FRAMES = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"""
# What goes over the edge and cannot be brought into sight.
CUT_OFF = """part => [...part.querySelectorAll('*')].filter(node => {
  const style = getComputedStyle(node);
  const scrolls = node.parentElement.closest('[tabindex="0"], pre, .jp-gpufit-wide');
  const over = node.getBoundingClientRect().right > part.getBoundingClientRect().left + part.clientWidth + 1;
  const told = node.closest('[title]'); // a long word is cut, and told in full
  return over && style.visibility !== 'hidden' && ![scrolls, told].some(one => one && part.contains(one));
}).map(node => node.outerHTML.slice(0, 120))"""
# Puts the focus on the first of what can be used, and notes which others it comes to.
REACHABLE = """part => {
  const all = 'button, select, input, summary, a[href], [tabindex="0"]';
  part.reached = [...part.querySelectorAll(all)]
    .filter(node => node.checkVisibility() && !node.disabled)
    .filter(node => !node.parentElement.closest('.jp-gpufit-output, .uplot'))
    .map(node => ({ node, html: node.outerHTML.slice(0, 120), seen: false }));
  part.addEventListener('focusin', ({ target }) => {
    const found = part.reached.find(({ node }) => node === target);
    if (found) found.seen = true;
  });
  part.reached[0].node.focus();
  return part.reached.map(({ html }) => html);
}"""
MISSED = "node => node.reached.filter(one => !one.seen).map(one => one.html)"
