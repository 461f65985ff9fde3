"""The tab that follows a job's journal."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from .screen import button, job_card, unfold
from .stage import CAN, Stage, a_job

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def text(said: str, name: str = "stdout") -> dict[str, Any]:
    return {"kind": "text", "name": name, "text": said}


def display(data: dict[str, Any], id: str = "", update: bool = False) -> dict[str, Any]:
    return {"kind": "display", "data": data, "metadata": {}, "transient": {"display_id": id}, "update": update}


def open_log(stage: Stage, *events: dict[str, Any]) -> Locator:
    stage.show(jobs=[a_job("digits")])
    stage.write(*events)
    button(stage.page, "Open log of digits").click()
    return output_of(stage.page)


def output_of(page: Page) -> Locator:
    return page.get_by_role("log", name="Output of digits")


def test_shows_what_was_written_and_what_comes(stage: Stage) -> None:
    log = open_log(
        stage,
        {"kind": "state", "state": "running", "reason": "", "device": "1", "epoch": 1},
        text("one\n"),
        text("\x1b[31mred\x1b[0m\n"),
        text("warned\n", "stderr"),
        display({"text/html": "<em>fine</em>", "text/plain": "plain"}),
        {"kind": "note", "text": "our own words", "once": False},
        {"kind": "gap", "missed": 3, "why": "the disk was full"},
        {"kind": "gap", "missed": 1, "why": "it was too long"},
    )

    expect(log).to_contain_text("running on GPU 1")
    expect(log.locator(".ansi-red-fg")).to_have_text("red")
    warned = log.locator('[data-mime-type="application/vnd.jupyter.stderr"]')
    expect(warned).to_contain_text("warned")
    expect(warned).to_have_css("background-color", "rgba(0, 0, 0, 0)")  # bars come that way, and are no errors
    expect(log.locator("em")).to_have_text("fine")
    expect(log).to_contain_text("our own words")
    expect(log).to_contain_text("3 outputs are missing here: the disk was full")
    expect(log).to_contain_text("1 output is missing here: it was too long")

    stage.write(text("later\n"))
    expect(log).to_contain_text("later")


def test_bars_are_drawn_over_themselves(stage: Stage) -> None:
    bars = [text(f"\r{percent}%|{'#' * percent}", "stderr") for percent in range(0, 101, 10)]
    log = open_log(stage, *bars, text("\n", "stderr"), text("loss 2.5\b\b\b1.0\n"))

    expect(log).to_contain_text("100%|###")
    expect(log).not_to_contain_text("90%")
    expect(log).to_contain_text("loss 1.0")


def test_a_display_is_updated_in_its_place(stage: Stage) -> None:
    log = open_log(stage, display({"text/plain": "first"}, "a"), text("between\n"))
    expect(log).to_contain_text("between")

    stage.write(display({"text/plain": "second"}, "a", update=True))
    expect(log).to_contain_text("second")
    expect(log).not_to_contain_text("first")

    stage.write({"kind": "clear", "wait": True})
    stage.write(text("afresh\n"))
    expect(log).to_contain_text("afresh")
    expect(log).not_to_contain_text("between")


def test_trusts_nothing(stage: Stage) -> None:
    ran: list[str] = []
    stage.page.on("console", lambda message: ran.append(message.text) if "HOSTILE" in message.text else None)
    script = "<script>console.log('HOSTILE')</script><img src=x onerror=\"console.log('HOSTILE')\">clean"
    log = open_log(
        stage,
        display({"text/html": script}),
        display({"application/javascript": "console.log('HOSTILE')", "text/plain": "a script"}),
        display({"image/svg+xml": "<svg onload=\"console.log('HOSTILE')\"/>"}),
        display({"text/markdown": "[x](javascript:console.log('HOSTILE'))"}),
        text("<img src=x onerror=\"console.log('HOSTILE')\">\n"),
        {"kind": "state", "state": "<b>bold</b>", "reason": script, "device": "", "epoch": 1},
        {"kind": "failure", "ename": "E", "evalue": "", "traceback": [script]},
        display({"image/png": PIXEL}),
        text("the end\n"),
    )

    expect(log).to_contain_text("the end")
    expect(log).to_contain_text("clean")
    expect(log).to_contain_text("a script")
    expect(log).to_contain_text("An output that cannot be shown here: image/svg+xml")
    expect(log.locator('img[src^="data:image/png"]')).to_have_count(1)
    assert log.locator("script, [onerror], [onload], a[href^='javascript']").count() == 0
    assert ran == []


def test_looking_at_an_output_asks_nobody_and_runs_no_command(stage: Stage) -> None:
    asked: list[str] = []
    stage.page.on("request", lambda request: asked.append(request.url) if "asked" in request.url else None)
    away = "https://asked.invalid/picture.png"
    html = (
        f"<img src='{away}'><img src='/api/asked'><img srcset='{away} 2x'><video poster='{away}' src='{away}'></video>"
        f"<table background='{away}'><tr><td style='background-image: url({away})'>cell</td></tr></table>"
        f"<form action='{away}'><p>inside</p></form>"
        "<button data-commandlinker-command='filebrowser:delete'>press</button>"
        f"<a href='{away}' ping='{away}' data-commandlinker-command='apputils:reset'>link</a>"
        f"<img alt='drawn' src='data:image/png;base64,{PIXEL}'>"
    )
    log = open_log(
        stage,
        display({"text/html": html}),
        display({"text/markdown": f"![picture]({away})\n\n{html}"}),
        text("the end\n"),
    )

    expect(log).to_contain_text("the end")
    expect(log).to_contain_text("inside")
    expect(log.locator("img[alt=drawn]").first).to_have_attribute("src", f"data:image/png;base64,{PIXEL}")
    for left in ("form", "[data-commandlinker-command]", "[srcset]", "[poster]", "[background]", "[ping]"):
        expect(log.locator(left)).to_have_count(0)
    assert log.locator("img[src*=asked], [style*=asked]").count() == 0
    assert asked == []


def test_ten_thousand_lines_do_not_hold_up_the_page(stage: Stage) -> None:
    lines = [text(f"step {i}: loss {1 / (i + 1):.6f}\n", "stderr" if i % 500 == 0 else "stdout") for i in range(10_000)]
    stage.page.evaluate(WATCH_TASKS)

    log = open_log(stage, *lines)

    expect(log).to_contain_text("step 9999")
    expect(log.get_by_text("step 9999")).to_be_visible()
    shown = log.evaluate("log => log.textContent.split('\\n').filter(line => line.startsWith('step')).length")
    assert shown >= 5000  # the last part first
    tasks = sorted(stage.page.evaluate("window.gpufitTasks"))
    assert sum(tasks) < 15_000, tasks  # ms, of which a calm machine needs 300; the clock's, and it may be a busy one

    page = stage.page
    page.get_by_label("Go to a moment").select_option("start")
    expect(log.get_by_text("step 0: loss")).to_be_visible()
    expect(page.get_by_label("Follow the end")).not_to_be_checked()
    page.get_by_label("Follow the end").check()
    expect(log).to_contain_text("step 9999")


WATCH_TASKS = """() => {
  window.gpufitTasks = [];
  new PerformanceObserver(list => window.gpufitTasks.push(...list.getEntries().map(task => task.duration)))
    .observe({ type: 'longtask' });
}"""


def test_stays_where_the_reader_looks(stage: Stage) -> None:
    log = open_log(stage, *[text(f"line {i}\n") for i in range(300)])
    expect(log.get_by_text("line 299")).to_be_visible()

    log.hover()
    stage.page.mouse.wheel(0, -2000)
    expect(stage.page.get_by_label("Follow the end")).not_to_be_checked()
    before = log.evaluate("log => log.scrollTop")
    stage.write(*[text(f"later {i}\n") for i in range(100)])
    expect(log).to_contain_text("later 99")
    assert log.evaluate("log => log.scrollTop") == before

    log.focus()
    stage.page.keyboard.press("End")
    expect(stage.page.get_by_label("Follow the end")).to_be_checked()


def test_what_lays_the_page_out_anew_is_no_reader_who_goes_up(stage: Stage) -> None:
    log = open_log(stage, *[text(f"line {i}\n", "stderr" if i % 7 else "stdout") for i in range(300)])
    expect(log.get_by_text("line 299")).to_be_visible()
    for _ in range(3):  # each is another place to begin from
        log.evaluate(ANOTHER_THEME)
        assert log.evaluate("log => log.scrollHeight - log.scrollTop - log.clientHeight") < 2
        assert stage.page.get_by_label("Follow the end").is_checked()


# It is small while a theme's styles come, and then as before; the page tells of it in its next frame.
ANOTHER_THEME = """async log => {
  for (const size of ['4px', '']) {
    log.style.setProperty('--jp-code-font-size', size);
    log.scrollHeight;
  }
  await new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)));
}"""


def test_goes_to_a_moment(stage: Stage) -> None:
    queued = {"kind": "state", "state": "queued", "reason": "ada holds it", "device": "", "epoch": 1}
    many = [text(f"line {i}\n") for i in range(300)]
    log = open_log(stage, queued, *many, {**queued, "state": "running", "device": "1"}, *many)
    expect(log.get_by_text("line 299").last).to_be_visible()

    moments = stage.page.get_by_label("Go to a moment")
    choice = moments.locator("option", has_text="queued: ada holds it").get_attribute("value")
    moments.select_option(choice)

    expect(log.get_by_text("queued: ada holds it")).to_be_in_viewport()


def test_goes_on_after_the_server_was_away(stage: Stage) -> None:
    log = open_log(stage, text("before\n"))
    expect(log).to_contain_text("before")

    stage.go_away()
    stage.journal.append({"number": 2, "time": 0.0, "event": text("meanwhile\n")})
    stage.come_back()

    expect(log).to_contain_text("before\nmeanwhile")
    assert log.inner_text().count("before") == 1


def test_an_ended_job_has_its_log_too(stage: Stage) -> None:
    stage.show(jobs=[a_job("digits", state="done", can=CAN)])
    stage.write(text("all of it\n"))
    unfold(stage.page, "Ended")
    expect(job_card(stage.page, "digits")).to_contain_text("done")

    button(stage.page, "Open log of digits").click()
    button(stage.page, "Open log of digits").click()

    expect(output_of(stage.page)).to_contain_text("all of it")
    expect(stage.page.locator(".jp-gpufit-log")).to_have_count(1)
