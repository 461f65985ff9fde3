"""Who reads with their ears, works by keyboard or has little room: axe finds nothing, in no theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from .conftest import SCREENSHOTS, SIZE
from .drawn import Drawn
from .screen import button, command, fold
from .stage import Stage
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


def test_all_can_be_read_and_reached(everything: Page) -> None:
    if not AXE.exists():
        pytest.skip("NOT TESTED: whether all can use the panel. npm ci --prefix labextension")
    page = everything
    page.add_script_tag(path=AXE)
    found: list[str] = []
    for theme in THEMES:
        command(page, "apputils:change-theme", theme=theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
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


def looked_at(page: Page, what: str, part: str) -> list[str]:
    found: list[str] = []
    for theme in THEMES:
        command(page, "apputils:change-theme", theme=theme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
        found += seen(page, f"{what}, {theme.split()[-1].lower()}", [part])
    return found


def seen(page: Page, how: str, parts: Sequence[str] = PARTS) -> list[str]:
    """What axe finds, and what is cut off."""
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
