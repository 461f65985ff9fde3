"""What the panel shows of what the server says."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Page, expect

from .conftest import SIZE, TOKEN, Lab
from .screen import button, fold, job_card, open_panel, panel_of, section, tab
from .stage import CAN, GIB, NOW, ROOM, Stage, a_claim, a_gpu, a_job, a_part, a_process, a_progress, a_ticket
from .worlds import a_lab


def test_shows_both_slots(page: Page, lab: Lab) -> None:
    panel = open_panel(page, lab)

    for label in ("cpu:0", "cpu:1"):
        meter = panel.get_by_role("meter", name=f"Memory of {label}")
        expect(meter).to_have_attribute("aria-valuemax", str(2 * GIB))


def unfold(stage: Stage, device: str) -> None:
    button(stage.page, f"Details of {device}").press("Enter")


def test_says_that_there_is_nothing(stage: Stage) -> None:
    panel = panel_of(stage.page)

    expect(panel).to_contain_text("None can be seen here.")
    expect(panel).to_contain_text("Nobody waits.")
    expect(panel).to_contain_text("None yet. Put %%gpufit train on top of a cell")


def test_shows_what_a_gpu_tells(stage: Stage) -> None:
    parts = [
        a_part("mine", 10, "me"),
        a_part("claim", 20, "ada", 15),
        a_part("foreign", 5, "bob"),
        a_part("reserve", 8),
    ]
    history = [[NOW - 2, 90, 0], [NOW - 1, 37, 0]]
    room = ROOM | {"strangers": [a_process(4242, "bob", 5, "python serve.py --port 80")]}
    heat = {"utilisation": 37, "temperature": 61, "power": 311.6}
    busy = a_gpu(0, **heat, parts=[*parts, a_part("free", 37)], history=history, room=room)
    lost = a_gpu(1, free=0, utilisation=None, temperature=None, problem="GPU is lost: it has fallen off the bus.")
    claims = [a_claim("ada", "gnn", "0", bytes=20 * GIB, label="/home/ada/graphs/molecules.ipynb")]
    stage.show(devices=[busy, lost | {"parts": []}], claims=claims)

    panel = panel_of(stage.page)

    meter = panel.get_by_role("meter", name="Memory of GPU 0")
    expect(meter).to_have_attribute("aria-valuenow", str(43 * GIB))
    words = "mine 10.0 GiB, ada 20.0 GiB (uses 15.0 GiB), bob outside the lab 5.0 GiB, kept back 8.0 GiB, free 37.0 GiB"
    expect(meter).to_have_attribute("aria-valuetext", words)
    expect(panel).to_contain_text("37.0 GiB free37 %")
    expect(panel).not_to_contain_text("61 °C")
    unfold(stage, "GPU 0")
    for text in (
        "61 °C, 312 W",
        "ada gnn",
        "molecules.ipynb, for 2 h 4 min",
        "bob, outside the lab",
        "pid 4242 python serve",
    ):
        expect(panel).to_contain_text(text)
    expect(panel.get_by_role("img", name="Peak 90 % busy in the last minute")).to_be_visible()
    expect(panel).to_contain_text("it has fallen off the bus")
    expect(panel.get_by_role("meter", name="Memory of GPU 1")).to_have_count(0)


def test_shows_what_the_machine_itself_has_left(stage: Stage) -> None:
    panel = panel_of(stage.page)
    stage.show(devices=[a_gpu(0)])
    expect(panel.get_by_role("meter")).to_have_count(1)

    stage.show(host={"total": 503 * GIB, "free": 371 * GIB, "busy": 23.4, "processors": 64})

    meter = panel.get_by_role("meter", name="Memory of the host")
    expect(meter).to_have_attribute("aria-valuenow", str(132 * GIB))
    expect(meter).to_have_attribute("aria-valuetext", "132.0 GiB of 503.0 GiB are used")
    expect(panel).to_contain_text("Host371.0 GiB free23 %")
    expect(panel.get_by_title("64 processors", exact=True)).to_have_text("Host")


def test_of_a_remark_the_rest_is_told_when_it_is_asked_for(stage: Stage) -> None:
    stage.show(remarks=["Claims are private to you: other users do not see them. Ask for `gpufit lab init`."])
    head = panel_of(stage.page).get_by_text("Claims are private to you", exact=True)
    way_on = panel_of(stage.page).locator("code").filter(has_text="gpufit lab init")
    expect(head).to_be_visible()
    expect(way_on).to_be_hidden()

    head.press("Enter")

    expect(way_on).to_be_visible()


def test_shows_for_whom_a_device_is_kept(stage: Stage) -> None:
    stage.show(devices=[a_gpu(0, room=ROOM | {"held_for": "ada's sweep"})])
    unfold(stage, "GPU 0")

    expect(panel_of(stage.page)).to_contain_text("What is free is kept for ada's sweep.")


def test_shows_who_waits_and_why(stage: Stage) -> None:
    mine = a_ticket(2, "me", "letters", mine=True, reason="ada's words came first and may need it")
    stage.show(queue=[a_ticket(1, "ada", "words"), mine])

    places = section(stage.page, "Queue").get_by_role("listitem")
    expect(places).to_have_count(2)
    expect(places.nth(0)).to_contain_text("1ada words12.0 GiB3 min")
    expect(places.nth(1)).to_contain_text("you letters")
    expect(places.nth(1)).to_contain_text("came first and may need it")
    expect(places.nth(1)).to_have_attribute("data-mine", "true")


def test_of_a_long_queue_the_first_and_ones_own_are_shown(stage: Stage) -> None:
    stage.show(queue=[a_ticket(1 + i, "me" if i == 11 else "ada", f"job-{i}", mine=i == 11) for i in range(40)])
    places = section(stage.page, "Queue").locator(".jp-gpufit-ticket")
    expect(places).to_have_count(6)
    expect(places.last).to_contain_text("12you job-11")

    button(stage.page, "Show 34 more").press("Enter")
    expect(places).to_have_count(40)
    button(stage.page, "Show fewer").click()
    expect(places).to_have_count(6)


def test_a_name_that_is_too_long_ends_in_dots(stage: Stage) -> None:
    name = "a-very-long-name-for-a-training-of-one-night-or-two"
    stage.show(jobs=[a_job(name)])
    shown = job_card(stage.page, name).get_by_role("button", name=name, exact=True)
    cut = shown.evaluate("node => node.scrollWidth > node.clientWidth && getComputedStyle(node).textOverflow")
    assert cut == "ellipsis"


def test_shows_how_far_a_job_is_and_what_it_takes(stage: Stage) -> None:
    job = a_job(
        "digits",
        device="1",
        since=NOW - 185,
        began=NOW - 7440,
        ran=3600.0 - 185,
        notebook="/home/me/work/digits.ipynb",
        progress=a_progress(1200, per_second=2.1, total=5000, left=1809.0),
        loss={"name": "nll", "value": 0.43118},
        mfu=0.413,
        mfu_foreseen=0.456,
        memory={"used": 30 * GIB, "peak": 31 * GIB, "estimate": 36 * GIB, "host": 3 * GIB, "link": 1.25 * GIB},
        checkpoint={"step": 1000, "time": NOW - 48, "bytes": GIB, "exact": True},
    )
    stage.show(devices=[a_gpu(0), a_gpu(1)], jobs=[job])

    card = job_card(stage.page, "digits")
    for text in ("running on GPU 1", "digits.ipynb", "step 1,200 of 5,000, 2.1 steps/s", "30 min left"):
        expect(card).to_contain_text(text)
    for text in ("nll0.4312", "MFU41 / 46 %", "memory30.0 of 36.0 GiB", "peak31.0 GiB", "ran1 h", "savedstep 1,000"):
        expect(card.locator("dl")).to_contain_text(text)
    expect(card.locator("dl")).to_contain_text("on the host3.0 GiB, 1.3 GiB/s")
    expect(card.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "24")
    expect(card).not_to_contain_text("not exact")

    stage.show(jobs=[job | {"mfu_foreseen": None}])
    expect(card.locator("dl")).to_contain_text("MFU41 %peak")
    stage.show(jobs=[job | {"checkpoint": job["checkpoint"] | {"exact": False}}])
    expect(card).to_contain_text("Its checkpoint is not exact")


def test_a_job_that_tells_nothing_yet_has_its_places(stage: Stage) -> None:
    stage.show(jobs=[a_job("digits", progress=a_progress(7), loss={"name": "loss", "value": None})])

    card = job_card(stage.page, "digits")
    before = card.bounding_box()
    expect(card).to_contain_text("step 7")
    expect(card.locator("dl")).to_contain_text("lossnot finite")
    full = a_job("digits", progress=a_progress(8, per_second=0.3, total=10, left=6.0), mfu=0.3)
    stage.show(jobs=[full | {"memory": {"used": 1, "peak": 1, "estimate": None}}])
    expect(card).to_contain_text("step 8 of 10, 3.3 s/step")
    assert card.bounding_box() == before, "it jumped"


def test_with_many_devices_what_i_run_is_on_the_first_screen(stage: Stage) -> None:
    going = a_job("digits", device="3", progress=a_progress(7, total=10), notebook="/a/digits.ipynb")
    waiting = a_job("letters", state="queued", reason="All are held by ada.", since=NOW - 4, began=None)
    old: dict[str, Any] = {"state": "done", "can": CAN | {"resume": "It is done."}}
    ended = [a_job("words", id=f"w{i}", began=NOW - 3600 * i, ran=600.0, created=NOW - 9e5, **old) for i in (2, 1)]
    ended[0] |= {"notebook": "/a/first.ipynb"}
    gpus = [a_gpu(i) for i in range(16)]
    gpus[3] |= {"utilisation": 0, "idle_since": NOW - 1260}
    stage.show(jobs=[*ended, going, waiting], devices=gpus, claims=[a_claim("ada", "gnn", "3", bytes=64 * GIB)])
    stage.page.set_viewport_size({"width": 1366, "height": 657})  # a laptop's, without the browser's own bars
    panel = panel_of(stage.page)

    titles = panel.get_by_role("heading", level=3)
    expect(titles).to_have_text([re.compile(f"^{title}") for title in ("My jobs", "Queue", "Devices", "Ended")])
    items = stage.page.locator(".jp-gpufit-job")
    expect(items).to_have_count(2)
    expect(items.nth(0)).to_contain_text("running on GPU 3")
    expect(button(stage.page, "Stop digits")).to_be_in_viewport(ratio=1)
    lines = stage.page.locator(".jp-gpufit-device")
    heights = {round(box["height"]) for line in lines.all() if (box := line.bounding_box())}
    assert len(heights) <= 2 and max(heights) <= 28
    expect(lines.nth(3)).to_contain_text("0 % for 21 min")
    unfold(stage, "GPU 3")
    expect(lines.nth(3)).to_contain_text("64.0 GiB, 0 % for 21 min")

    fold(stage.page, "Ended").press("Enter")
    expect(items).to_have_count(4)
    expect(items.nth(3)).to_contain_text("first.ipynb")
    expect(items.nth(2)).to_contain_text(", ran 10 min")
    button(stage.page, "Remove all jobs that have ended").click()
    stage.page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(section(stage.page, "Ended")).to_contain_text("heard")
    assert stage.asked == [("jobs/remove", {"jobs": ["w2", "w1"]})]
    stage.page.set_viewport_size(SIZE)


def test_a_job_that_waits_says_what_the_queue_says_now(stage: Stage) -> None:
    old, held = "ada's gnn has held cpu:0 for 5.0 s; you are 1st of 1", "your night-run (letters.ipynb) has held cpu:0"
    waits = a_job("digits", state="queued", reason=old, since=NOW - 4)
    others = a_ticket(1, "ada", "digits", job="id-of-digits")
    mine = a_ticket(2, "me", "digits", mine=True, job="id-of-digits", reason=f"{held} for 3 min")
    stage.show(jobs=[waits], queue=[others, mine])

    card = job_card(stage.page, "digits")
    expect(card).to_contain_text(f"2nd in the queue: {held} for 3 min")
    expect(card).to_contain_text("4 s")
    expect(card).not_to_contain_text("5.0 s")
    stage.show(queue=[others, mine | {"reason": f"{held} for 4 min"}])
    expect(card).to_contain_text(f"2nd in the queue: {held} for 4 min")


def test_a_section_can_be_folded_away(stage: Stage) -> None:
    stage.show(devices=[a_gpu(0)])
    panel = panel_of(stage.page)
    fold = panel.get_by_role("button", name="Devices")
    expect(panel.get_by_role("meter")).to_have_count(1)

    fold.press("Enter")

    expect(fold).to_have_attribute("aria-expanded", "false")
    expect(panel.get_by_role("meter")).to_have_count(0)
    fold.press("Enter")
    expect(panel.get_by_role("meter")).to_have_count(1)


def test_shows_what_others_wrote_as_text(stage: Stage) -> None:
    bold = "<b onmouseover=alert(1)>bold</b><img src=x onerror=alert(1)>"
    stage.page.on("dialog", lambda dialog: (_ for _ in ()).throw(AssertionError("a script ran")))
    claim = a_claim(bold, bold, "0", label=bold)
    ticket = a_ticket(1, bold, bold, label=bold, reason=bold, wants=bold)
    job = a_job(bold, id="x", reason=bold, notebook=bold, loss={"name": bold, "value": 1.0})
    foreign = a_part("foreign", 1, bold)
    stage.show(
        devices=[
            a_gpu(
                0,
                name=bold,
                parts=[foreign],
                room=ROOM | {"held_for": bold, "strangers": [a_process(1, bold, 1, bold)]},
            )
        ],
        claims=[claim],
        queue=[ticket],
        jobs=[job],
        problem=bold,
        remarks=[bold],
    )

    panel = panel_of(stage.page)
    unfold(stage, "GPU 0")

    expect(panel.get_by_text(bold, exact=True).first).to_be_visible()
    expect(panel.locator("img, [onmouseover]")).to_have_count(0)
    expect(panel.locator("b").filter(has_text="bold")).to_have_count(2)  # ours: the two users
    expect(stage.page.locator(".jp-gpufit-status")).to_have_count(1)


def test_keeps_the_last_reading_while_the_server_is_away(stage: Stage) -> None:
    panel = panel_of(stage.page)
    stage.show(devices=[a_gpu(0), a_gpu(1)])
    expect(panel.get_by_role("meter")).to_have_count(2)

    stage.go_away()
    expect(panel.get_by_role("status").first).to_contain_text("The Jupyter server does not answer.")
    expect(panel.get_by_role("meter")).to_have_count(2)

    stage.come_back()
    stage.show(devices=[a_gpu(0)])
    expect(panel.get_by_role("meter")).to_have_count(1)
    expect(panel.get_by_role("status").first).to_be_empty()


def test_hides_others_when_the_reader_wants_it(page: Page, lab: Lab) -> None:
    stage = Stage(page)
    stage.show(**a_lab())
    stage.open()
    address = f"{lab.url}/lab/api/settings/jupyter-gpufit:panel?token={TOKEN}"
    page.request.put(address, data={"raw": '{"others": "none"}'})
    try:
        panel = open_panel(page, lab)
        for device in panel.locator(".jp-gpufit-row").all():
            device.click()
        expect(panel).to_contain_text("user 1 a job")
        for secret in ("ada", "bob", "carol", "vit-large", "pretrain", "sweep"):
            expect(panel).not_to_contain_text(secret)
        expect(panel).to_contain_text("you bert-run")
    finally:
        page.request.put(address, data={"raw": "{}"})


def test_says_that_the_server_extension_is_missing(page: Page, lab: Lab) -> None:
    page.route_web_socket("**/jupyter-gpufit/api/events*", lambda socket: socket.close())
    page.route("**/jupyter-gpufit/api/status*", lambda route: route.fulfill(status=404))

    panel = open_panel(page, lab)

    expect(panel.get_by_role("status").first).to_contain_text("jupyter server extension enable jupyter_gpufit")


def test_works_without_the_websocket_and_rests_while_hidden(page: Page, lab: Lab) -> None:
    page.clock.install()
    stage = Stage(page)
    stage.show(jobs=[a_job("digits", state="done")])
    stage.open(socket=False)
    panel = open_panel(page, lab)
    fold(page, "Ended").click()
    expect(job_card(page, "digits")).to_contain_text("done")

    stage.show(jobs=[a_job("digits", state="lost")])
    page.clock.run_for(2_000)
    expect(job_card(page, "digits")).to_contain_text("lost")

    tab(page).click()  # closes it
    expect(panel).to_be_hidden()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.clock.run_for(60_000)
    assert len([url for url in asked if "jupyter-gpufit" in url]) <= 3, asked  # for notifications, at a slow pace

    stage.show(jobs=[a_job("digits", state="stopped")])
    tab(page).click()
    expect(job_card(page, "digits")).to_contain_text("stopped")  # at once, not at the next tick: the clock stands
