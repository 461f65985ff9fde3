"""A hundred runs of a million steps over each other, under the mouse: how long a frame takes, and the page's own work.

    python bench/runs.py              # half a minute; needs Chromium

A real JupyterLab; what its server extension would say comes from tests/browser/stage.py. Frames are counted by
requestAnimationFrame; "script" is what the page's own code took of a processor, by Chromium's account. Chromium draws
here without a GPU, which a frame has to wait for and the script has not.
"""

from __future__ import annotations

import re
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import p, package_root, show_table, write_results

package_root()

from playwright.sync_api import Page, sync_playwright  # noqa: E402 - needs the path above

from tests.browser.conftest import CHROMIUM, PANEL_TAB, SIZE, running_lab  # noqa: E402
from tests.browser.drawn import Drawn  # noqa: E402
from tests.browser.screen import command  # noqa: E402
from tests.browser.stage import NOW, Stage, a_job  # noqa: E402

RUNS, STEPS = 100, 1_000_000
LONG = 50.0  # ms: a frame that is seen as a jerk
COUNT = """() => {
  window.frames_ = [];
  let last = performance.now();
  const tick = now => {
    frames_.push(now - last);
    last = now;
    window.counting = requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
}"""
STOP = "() => { cancelAnimationFrame(counting); return frames_; }"


def main() -> None:
    if CHROMIUM is None:
        print("NOT MEASURED: there is no Chromium. apt-get install chromium")
        return
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as home, running_lab(Path(home)) as lab:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport=SIZE)
        stage, drawn = Stage(page), Drawn(length=STEPS)
        stage.show(jobs=[a_job(f"run-{i:02}", state="done", began=NOW - 9000 - i) for i in range(RUNS)])
        stage.open()
        drawn.open(page)
        page.goto(lab.address())
        page.locator(PANEL_TAB).click()
        results = {name: measured(page, act, times) for name, (act, times) in acts(page, stage).items()}
        browser.close()
    heads = list(next(iter(results.values())))
    rows = [(name, *(f"{row[head]:.1f}" for head in heads)) for name, row in results.items()]
    show_table((f"{RUNS} runs of {STEPS:,} steps", *heads), rows)
    write_results("runs", results)


def acts(page: Page, stage: Stage) -> dict[str, tuple[Callable[[], None], int]]:
    """What is done with them, and how often."""
    command(page, "gpufit:runs")
    page.get_by_role("checkbox", name="Mark all runs").check()
    page.get_by_role("img", name=f"power: {RUNS} runs").locator("canvas").wait_for()
    loss = page.get_by_role("img", name=re.compile("^loss: "))
    loss.scroll_into_view_if_needed()
    box = loss.locator(".u-over").bounding_box()
    assert box is not None
    page.wait_for_timeout(1000)

    def hover() -> None:
        for i in range(100):
            page.mouse.move(box["x"] + box["width"] * i / 100, box["y"] + box["height"] * (i % 10) / 10)

    def press(where: Any, key: str, times: int) -> None:
        for _ in range(times):
            where.press(key)
            page.wait_for_timeout(100)

    def read() -> None:
        for _ in range(5):
            stage.show(jobs=stage.status["jobs"])
            page.wait_for_timeout(200)

    return {
        "hover": (hover, 100),
        "smooth": (lambda: press(page.get_by_label("Smoothing"), "ArrowRight", 20), 20),
        "a reading of the devices": (read, 5),
        "zoom": (lambda: press(loss, "+", 5), 5),
    }


def measured(page: Page, act: Callable[[], None], times: int) -> dict[str, float]:
    devtools = page.context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def script() -> float:
        found = {one["name"]: one["value"] for one in devtools.send("Performance.getMetrics")["metrics"]}
        return float(found["ScriptDuration"])

    before = script()
    page.evaluate(COUNT)
    act()
    page.wait_for_timeout(300)
    after, frames = script(), page.evaluate(STOP)
    return {
        "frames": float(len(frames)),
        "median, ms": statistics.median(frames),
        "p95, ms": p(95, frames),
        f"over {LONG:.0f} ms": float(sum(frame > LONG for frame in frames)),
        "script for each, ms": 1e3 * (after - before) / times,
    }


if __name__ == "__main__":
    main()
