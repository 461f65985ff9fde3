"""What the buttons do, and how it shows."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from .screen import button, fold, job_card, panel_of, section, unfold
from .stage import CAN, GIB, NOW, Stage, a_claim, a_gpu, a_job, a_ticket

TARGETS = [
    {"device": "0", "ok": False, "reason": "It is there already."},
    {"device": "1", "ok": False, "reason": "ada's gnn holds it alone."},
    {"device": "2", "ok": True, "reason": ""},
]


def running(**said: Any) -> dict[str, Any]:
    return a_job("digits", device="0", can=CAN | {"move": TARGETS}, **said)


@pytest.mark.parametrize(("text", "action"), [("Checkpoint", "checkpoint"), ("Release", "release")])
def test_what_was_done_shows_at_once_and_then_as_state(stage: Stage, text: str, action: str) -> None:
    stage.show(jobs=[running()])
    card = job_card(stage.page, "digits")
    stage.hold_actions()

    button(stage.page, f"{text} digits").click()
    expect(button(stage.page, f"{text} digits")).to_have_attribute("aria-busy", "true")
    button(stage.page, f"{text} digits").click(force=True)  # an impatient second click
    button(stage.page, f"{text} digits").click(force=True)

    stage.answer = 202, {"said": "digits saves at its next safe point"}
    stage.let_go()
    expect(card).to_contain_text("digits saves at its next safe point")
    assert stage.asked == [(f"jobs/id-of-digits/{action}", {})]

    stage.show(jobs=[running(state="saving")])
    expect(card).to_contain_text("saving on GPU 0")
    expect(card).not_to_contain_text("safe point")


def test_a_refusal_stands_where_the_button_is(stage: Stage) -> None:
    stage.show(jobs=[running()])
    stage.answer = 409, {"message": "digits: no checkpoint now. It holds a lock."}

    button(stage.page, "Checkpoint digits").click()

    expect(job_card(stage.page, "digits").get_by_role("alert")).to_have_text(
        "digits: no checkpoint now. It holds a lock."
    )


def test_what_the_server_says_later_shows_too(stage: Stage) -> None:
    stage.show(jobs=[running()])
    button(stage.page, "Checkpoint digits").click()
    expect(job_card(stage.page, "digits")).to_contain_text("heard")

    stage.send({"type": "said", "job": "id-of-digits", "action": "checkpoint", "text": "disk full", "failed": True})

    expect(job_card(stage.page, "digits").get_by_role("alert")).to_have_text("disk full")


def test_without_an_answer_nothing_is_sent_twice(stage: Stage) -> None:
    stage.show(jobs=[running()])
    stage.go_away()

    button(stage.page, "Release digits").click()

    alert = job_card(stage.page, "digits").get_by_role("alert")
    expect(alert).to_contain_text("whether it heard this is not known")
    assert [path for path, _ in stage.asked] == ["jobs/id-of-digits/release"]


def test_a_button_that_cannot_be_used_says_why(stage: Stage) -> None:
    why = "Its cell has not begun yet."
    stage.show(jobs=[a_job("digits", state="queued", can=CAN | {"checkpoint": why})])

    greyed = button(stage.page, f"Checkpoint digits: {why}")
    expect(greyed).to_have_attribute("aria-disabled", "true")
    greyed.focus()
    expect(greyed).to_be_focused()
    greyed.press("Enter")
    expect(job_card(stage.page, "digits")).to_contain_text("queued")
    assert stage.asked == []


def test_moves_to_a_device_where_it_fits_by_keyboard(stage: Stage) -> None:
    stage.show(jobs=[running()], devices=[a_gpu(i) for i in range(3)])
    keys = stage.page.keyboard

    button(stage.page, "Move digits").press("Enter")
    items = panel_of(stage.page).get_by_role("menuitem")
    expect(items).to_have_count(3)
    expect(items.nth(0)).to_be_focused()
    expect(items.nth(1)).to_have_attribute("aria-disabled", "true")
    expect(items.nth(1)).to_contain_text("ada's gnn holds it alone.")
    keys.press("ArrowDown")
    keys.press("Enter")  # greyed
    expect(items).to_have_count(3)
    keys.press("ArrowDown")
    keys.press("Enter")

    expect(items).to_have_count(0)
    expect(button(stage.page, "Move digits")).to_be_focused()
    expect(job_card(stage.page, "digits")).to_contain_text("heard")
    assert stage.asked == [("jobs/id-of-digits/move", {"to": "2"})]


def test_the_menu_closes_by_escape_and_by_a_click_elsewhere(stage: Stage) -> None:
    stage.show(jobs=[running()])
    items = panel_of(stage.page).get_by_role("menuitem")

    button(stage.page, "Move digits").click()
    expect(items).to_have_count(3)
    stage.page.keyboard.press("Escape")
    expect(items).to_have_count(0)

    button(stage.page, "Move digits").click()
    expect(items).to_have_count(3)
    panel_of(stage.page).get_by_role("heading", name="jupyter_gpufit").click()
    expect(items).to_have_count(0)
    assert stage.asked == []


def test_stops_only_when_it_is_meant(stage: Stage) -> None:
    stage.show(jobs=[running(checkpoint={"step": 900, "time": NOW, "bytes": GIB, "exact": True})])
    dialog = stage.page.locator(".jp-Dialog")

    button(stage.page, "Stop digits").click()
    expect(dialog).to_contain_text("Stop digits?")
    expect(dialog).to_contain_text("since step 900")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert stage.asked == []

    button(stage.page, "Stop digits").click()
    dialog.get_by_role("button", name="Save and stop").click()
    expect(dialog).to_have_count(0)
    expect(job_card(stage.page, "digits")).to_contain_text("heard")
    assert stage.asked.pop() == ("jobs/id-of-digits/release", {})

    button(stage.page, "Stop digits").click()
    dialog.get_by_role("button", name="Stop without saving").click()
    expect(job_card(stage.page, "digits")).to_contain_text("heard")
    assert stage.asked == [("jobs/id-of-digits/stop", {})]


def test_what_the_server_is_about_shows_as_state_to_every_page(stage: Stage) -> None:
    stage.show(jobs=[running(under_way=["stop"])])
    card, bar = job_card(stage.page, "digits"), stage.page.locator(".jp-gpufit-status")
    expect(card).to_contain_text("stopping on GPU 0")
    expect(bar).to_have_text("GPU 0: digits stopping")
    expect(button(stage.page, "Stop digits")).to_have_attribute("aria-busy", "true")

    stopped = CAN | {"resume": ""}
    stage.show(jobs=[a_job("digits", state="stopped", can=stopped, under_way=["stop"])])
    unfold(stage.page, "Ended")
    expect(card).to_contain_text("stopped")
    stage.show(jobs=[a_job("digits", state="stopped", can=stopped, under_way=["resume"])])
    expect(card).to_contain_text("resuming")
    expect(button(stage.page, "Resume digits")).to_have_attribute("aria-busy", "true")


def test_resumes_what_was_released(stage: Stage) -> None:
    stage.show(jobs=[a_job("digits", state="released", can=CAN | {"resume": ""})])

    button(stage.page, "Resume digits").click()

    expect(job_card(stage.page, "digits")).to_contain_text("heard")
    assert stage.asked == [("jobs/id-of-digits/resume", {})]
    stage.show(jobs=[running()])
    expect(button(stage.page, "Resume digits")).to_have_count(0)
    expect(button(stage.page, "Release digits")).to_be_visible()


def test_asks_somebody_to_release_once(stage: Stage) -> None:
    stage.show(devices=[a_gpu(0)], claims=[a_claim("ada", "gnn", "0"), a_claim("me", "digits", "0", mine=True)])

    button(stage.page, "Details of GPU 0").click()
    button(stage.page, "Ask ada to release gnn").click()

    expect(panel_of(stage.page)).to_contain_text("Asked")
    asked = button(stage.page, "Ask ada to release gnn: You have asked. The job runs on until ada releases it.")
    asked.click(force=True)
    assert stage.asked == [("claims/c.ada.gnn/ask", {})]
    expect(panel_of(stage.page).get_by_role("button", name="to release digits")).to_have_count(0)


def test_tells_who_would_like_the_device(stage: Stage) -> None:
    claim = a_claim("me", "digits", "0", mine=True, job="id-of-digits", asked_by=["ada", "bob"])
    stage.show(devices=[a_gpu(0)], claims=[claim], jobs=[running()])

    expect(job_card(stage.page, "digits")).to_contain_text("ada, bob would like this device.")


def test_the_palette_asks_which_job(stage: Stage) -> None:
    can_not = CAN | {"checkpoint": "It is done."}
    jobs = [running(), a_job("letters"), a_job("words", state="done", can=can_not)]
    stage.show(jobs=jobs)
    expect(fold(stage.page, "Ended")).to_be_visible()

    stage.page.evaluate("void jupyterapp.commands.execute('gpufit:checkpoint')")
    dialog = stage.page.locator(".jp-Dialog")
    expect(dialog.locator("option")).to_have_count(2)
    dialog.locator("select").select_option(label="digits (id-of-digits), running")
    dialog.get_by_role("button", name="Ok").click()

    expect(job_card(stage.page, "digits")).to_contain_text("heard")
    assert stage.asked == [("jobs/id-of-digits/checkpoint", {})]


def test_the_status_bar_tells_of_the_first_job_and_leads_to_the_panel(stage: Stage) -> None:
    bar = stage.page.locator(".jp-gpufit-status")
    stage.show(jobs=[running(progress={"step": 31, "total": 50, "per_second": None, "left": None})])
    expect(bar).to_have_text("GPU 0: digits 62 %")

    stage.page.get_by_role("tab", name="GPUs and jobs").click()
    expect(panel_of(stage.page)).to_be_hidden()
    bar.get_by_role("button").click()
    expect(panel_of(stage.page)).to_be_visible()

    stage.show(jobs=[])
    expect(bar).to_be_empty()


def test_notifies_when_something_happens_to_a_job(stage: Stage) -> None:
    toast = stage.page.locator(".Toastify__toast")
    waiting = a_job("digits", state="queued", since=stage.status["time"] - 590, reason="ada holds it")
    stage.show(jobs=[waiting, a_job("letters")])
    expect(job_card(stage.page, "letters")).to_be_visible()

    stage.show(time=stage.status["time"] + 20, jobs=[waiting, a_job("letters", state="done")])
    expect(toast.filter(has_text="digits has waited for 10 min")).to_have_count(1)
    expect(toast.filter(has_text="letters is done.")).to_have_count(1)
    at_once = a_job("words", state="starting", created=stage.status["time"])
    stage.show(jobs=[waiting, a_job("letters", state="done"), at_once])
    expect(job_card(stage.page, "words")).to_be_visible()
    stage.show(jobs=[running(), a_job("letters", state="done"), at_once | {"state": "running"}])
    expect(toast.filter(has_text="digits runs on GPU 0.")).to_have_count(1)
    expect(toast.filter(has_text="words runs")).to_have_count(0)  # whoever has started it just now sees it
    stage.show(jobs=[running(state="lost", reason="its worker is gone"), a_job("letters", state="done")])
    expect(toast.filter(has_text="digits was lost: its worker is gone")).to_have_count(1)
    expect(toast.filter(has_text="digits")).to_have_count(1)  # of each job the latest alone
    toast.filter(has_text="digits").locator("button").first.click()
    expect(toast.filter(has_text="digits")).to_have_count(0)


def test_who_asks_for_a_device_is_told_once_with_what_can_be_done(stage: Stage) -> None:
    toast = stage.page.locator(".Toastify__toast").filter(has_text="which digits holds")
    mine = a_claim("me", "digits", "0", mine=True, job="id-of-digits")
    stage.show(jobs=[running()], claims=[mine | {"asked_by": ["bob"]}])
    expect(toast).to_contain_text("bob asks for GPU 0, which digits holds.")
    toast.get_by_role("button", name="Not now").click()
    expect(toast).to_have_count(0)

    stage.show(jobs=[running()], claims=[mine | {"asked_by": ["bob", "eve"]}])
    expect(toast).to_contain_text("eve asks for GPU 0")
    toast.get_by_role("button", name="Release").click()
    expect(toast).to_have_count(0)
    assert stage.asked == [("jobs/id-of-digits/release", {})]

    stage.show(jobs=[running()], claims=[mine | {"asked_by": ["ada", "bob", "eve"]}])
    expect(toast).to_contain_text("ada asks for GPU 0")
    stage.show(jobs=[running()], claims=[])
    expect(toast).to_have_count(0)  # there is nothing to release any more


def test_a_command_has_its_card_and_ends_when_it_is_meant(stage: Stage) -> None:
    held = a_claim("me", "train", "0", mine=True, label="python train.py --lr 3", asked_by=["bob"])
    waits = a_ticket(1, "me", "eval", mine=True, expected="starts in 5 min to 8 min")
    stage.show(devices=[a_gpu(0)], claims=[held], queue=[waits])
    for text in ("running on GPU 0", "python train.py --lr 3", "bob would like this device."):
        expect(job_card(stage.page, "train")).to_contain_text(text)
    expect(job_card(stage.page, "eval")).to_contain_text("1st in the queue: about to start")
    expect(section(stage.page, "Queue")).to_contain_text("Starts in 5 min to 8 min.")
    toast = stage.page.locator(".Toastify__toast").filter(has_text="bob asks for GPU 0, which train holds.")
    dialog = stage.page.locator(".jp-Dialog")

    toast.get_by_role("button", name="End…").click()
    dialog.get_by_role("button", name="Cancel").click()
    button(stage.page, "End train").click()
    dialog.get_by_role("button", name="End", exact=True).click()

    expect(job_card(stage.page, "train")).to_contain_text("heard")
    assert stage.asked == [("claims/c.me.train/release", {})]


def test_says_when_the_page_is_offline(stage: Stage) -> None:
    stage.show(jobs=[running()])
    stage.page.context.set_offline(True)
    try:
        stage.go_away()
        expect(panel_of(stage.page).get_by_role("status").first).to_contain_text("does not answer")
    finally:
        stage.page.context.set_offline(False)
        stage.come_back()
    stage.show(jobs=[running()])
    expect(panel_of(stage.page).get_by_role("status").first).to_be_empty()
    assert stage.asked == []


def test_a_deployed_model_shows_how_it_is_called_and_can_be_tried(stage: Stage) -> None:
    calls = {"per_second": 120.5, "p50": 0.0021, "p99": 0.008, "waiting": 3, "refused": 7, "late": 0, "rows": 4.5}
    memory = {"used": GIB, "peak": GIB, "estimate": None}
    said = {"device": "0", "kind": "model", "calls": calls | {"limit": 2 * GIB}, "memory": memory, "step": 1200}
    stage.show(jobs=[a_job("net", can=CAN | {"move": TARGETS}, **said)])
    card = job_card(stage.page, "net")
    for words in ("120.5/s", "2.1 ms, 8 ms", "3 (7 refused)", "4.5 rows", "1.0 of 2.0 GiB", "1,200"):
        expect(card).to_contain_text(words)
    expect(card.get_by_role("img", name="Calls a second of net: 120.5 now")).to_be_visible()
    expect(card).not_to_contain_text("MFU")
    expect(button(stage.page, "Checkpoint net")).to_have_count(0)  # its file is all there is to save
    stage.answer = 202, {"said": "net answered in 1.2 ms. y: float32 [1, 2] from -0.3 to 0.8"}
    button(stage.page, "Try net").click()
    expect(card).to_contain_text("net answered in 1.2 ms")
    assert stage.asked == [("jobs/id-of-net/try", {})]
    button(stage.page, "Stop net").click()
    expect(stage.page.get_by_role("dialog")).to_contain_text("It can be resumed from its file.")
    stage.page.get_by_role("button", name="Cancel").click()
