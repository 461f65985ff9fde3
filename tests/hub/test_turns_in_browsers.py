"""Two users and an administrator in three browsers: queue, wait, turn, checkpoint, resume; each at the right time.

Ada trains in her JupyterLab, Bob waits in his. With a quantum Ada's training is warned, saved and queued again; Bob's
runs; then Ada's goes on, to the bits that her kernel makes of the same cell alone. What happens is read in both panels
and on the lab's page, and when it happened in the jobs' own journals. In the middle Bob's server is stopped.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM, PANEL_TAB, SIZE
from tests.browser.screen import job_card, section
from tests.browser.training import run_all
from tests.held_training import DIGEST, SET_UP
from tests.hub.house import PATIENCE, SERVERS, House, Person, RunningHub, start_hub
from tests.hub.test_hub import hub_ports, machine, until

__all__ = ["machine"]
pytestmark = [
    pytest.mark.soak,
    pytest.mark.slow(120),
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="NOT TESTED: turns in browsers. apt-get install chromium"),
]
QUANTUM, NOTICE = 10.0, 8.0  # seconds
LATE = 60.0  # seconds: for what may come later on a busy machine, and must never come earlier
CELL = (
    "for epoch in range(200):\n"
    "    for x, y in loader:\n"
    "        loss = torch.nn.functional.mse_loss(net(x), y)\n"
    "        opt.zero_grad(); loss.backward(); opt.step()\n"
    "        losses.append(loss.item().hex())\n"
    "        if not os.path.exists('enough'): time.sleep(0.2)\n"
)
TRAINS = "%%gpufit train --name {name} --memory 1536MiB\n" + CELL
ALONE = "trained = told\n" + SET_UP + CELL  # `enough` is there by then
LABS = {name: value for name, value in SERVERS.items() if name != "JUPYTERHUB_SINGLEUSER_APP"}
IN_BROWSERS = ("--Spawner.args=['--LabApp.expose_app_in_browser=True']",)
JOBS = {"ada": "bert", "bob": "gnn"}


def test_a_turn_ends_for_who_waits_and_comes_back_in_panel_and_overview(machine: House) -> None:
    follow_policy(machine)
    for user, name in JOBS.items():
        write_notebook(machine, user, name)
    hub = start_hub(machine, hub_ports(), *IN_BROWSERS, servers=LABS)
    hub.wait_until_ready()
    try:
        with sync_playwright() as playwright:
            assert CHROMIUM is not None
            chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
            with signed_in(chromium, hub, "ada") as ada, signed_in(chromium, hub, "bob") as bob:
                with signed_in(chromium, hub, "carol") as carol:
                    _story(machine, hub, ada, bob, carol)
            chromium.close()
    finally:
        hub.stop()


def _story(machine: House, hub: RunningHub, ada: Page, bob: Page, carol: Page) -> None:
    expect(carol.get_by_text("Nobody holds a device.")).to_be_visible()
    open_notebook(ada, hub, "ada")
    open_notebook(bob, hub, "bob")
    run_all(ada)
    shows(job_card(ada, "bert"), re.compile("running on cpu:0"))

    run_all(bob)
    shows(job_card(bob, "gnn"), re.compile("1st in the queue: .*ada.* bert"))
    shows(section(ada, "Queue"), re.compile("bob gnn"))
    overview(carol, hub, "Queue", "bob", "gnn", "ada")
    assert "queues again" not in job_card(ada, "bert").inner_text(), "without a quantum a job runs to its end"

    follow_policy(machine, quantum=QUANTUM)
    shows(job_card(ada, "bert"), "is saved and queues again, to go on, at")
    shows(job_card(bob, "gnn"), "running on cpu:0")
    shows(job_card(ada, "bert"), re.compile("1st in the queue: .*bob.* gnn"))
    overview(carol, hub, "Held now", "bob", "gnn")
    overview(carol, hub, "Queue", "ada", "bert", "bob")

    stop_server(bob, hub)  # his training goes on, gives its device back, and waits again
    shows(job_card(ada, "bert"), "running on cpu:0")
    overview(carol, hub, "Queue", "bob", "gnn", "ada")
    for user in JOBS:
        machine.run("touch", f"/home/{user}/enough", user=user)
    expect(ada.get_by_text("the same bits: True")).to_be_visible(timeout=1000 * PATIENCE)
    until(lambda: states(machine, "bob")[-1][1] == "done", lambda: states(machine, "bob"))
    overview(carol, hub, "Held now", "Nobody holds a device.")
    _each_at_its_time(machine)
    figures = Person(hub).get("/services/gpufit/metrics", token="a-token-for-prometheus").text
    assert 'gpufit_preemptions_total{user="ada",why="turn"}' in figures


def _each_at_its_time(machine: House) -> None:
    """By the journals: nobody left before the quantum and the notice, none ran beside the other, no step was lost."""
    ada, bob = (states(machine, user) for user in JOBS)
    stays = sorted([*stays_of(ada, "ada"), *stays_of(bob, "bob")])
    assert [user for _, _, user in stays][:3] == ["ada", "bob", "ada"], stays
    for (_, ends, _), (begins, _, _) in zip(stays, stays[1:], strict=False):
        assert ends <= begins, stays
    for begins, ends, _ in stays[:2]:
        assert QUANTUM <= ends - begins, stays
    (hers, left, _), (begins, ends, _) = stays[:2]
    assert ends - begins <= max(QUANTUM, left - hers) + NOTICE + LATE, "until he has used as much as she"
    warned, left = (when(machine, "ada", words) for words in ("is saved and queues again", "its turn ended at step"))
    assert NOTICE - 1 <= left - warned <= NOTICE + LATE, "a clock's second is cut off where it is told"


def shows(where: Locator, words: str | re.Pattern[str]) -> None:
    expect(where).to_contain_text(words, timeout=1000 * PATIENCE)


def follow_policy(machine: House, quantum: float | None = None) -> None:
    lines = [f'notice = "{NOTICE:.0f}s"', "entry_penalty = 1", 'kept_out = ["cpu:1"]']
    lines += ["[default]", f'quantum = "{quantum:.0f}s"'] if quantum is not None else []
    machine.run("tee", "/etc/gpufit/policy.toml", given="\n".join(lines))


def write_notebook(machine: House, user: str, name: str) -> None:
    """What is set up, the training, and the same alone in the kernel; the magics are there by themselves."""
    told = DIGEST.replace("print(", "told = (")
    same = f"{ALONE}\n{told}\nprint('the same bits:', told == trained)"
    sources = (SET_UP, TRAINS.format(name=name), told, same)
    cells: list[dict[str, object]] = [
        {"id": f"c{i}", "cell_type": "code", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for i, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    machine.run("tee", f"/home/{user}/train.ipynb", given=json.dumps(notebook))
    machine.run("chown", f"{user}:", f"/home/{user}/train.ipynb")


@contextmanager
def signed_in(browser: Browser, hub: RunningHub, user: str) -> Iterator[Page]:
    """A browser of this user's own, on the lab's page."""
    context = browser.new_context(viewport=SIZE)
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    page.goto(f"{hub.url}/services/gpufit/")
    page.get_by_label("Username").fill(user)
    page.get_by_label("Password").fill(f"pw-{user}")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="The lab's GPUs")).to_be_visible()
    yield page
    context.close()


def open_notebook(page: Page, hub: RunningHub, user: str) -> None:
    """In this user's own server, which the hub starts for it; with the panel beside it."""
    page.goto(f"{hub.url}/hub/spawn/{user}?next=/user/{user}/lab/tree/train.ipynb")
    page.wait_for_url(re.compile(f"/user/{user}/lab"))
    page.locator(PANEL_TAB).click()


def stop_server(page: Page, hub: RunningHub) -> None:
    page.goto(f"{hub.url}/hub/home")
    page.get_by_role("button", name="Stop My Server").click()
    expect(page.get_by_text("Start My Server")).to_be_visible(timeout=1000 * PATIENCE)


def overview(page: Page, hub: RunningHub, heading: str, *words: str) -> None:
    """The lab's page comes to have these words under this heading, in one row."""
    until = time.monotonic() + PATIENCE
    while True:
        page.goto(f"{hub.url}/services/gpufit/")
        below = page.inner_text("body").partition(f"\n{heading}\n")[2].splitlines()
        if any(all(word in line for word in words) for line in below):
            return
        assert time.monotonic() < until, (heading, words, page.inner_text("body"))
        time.sleep(0.5)


def states(machine: House, user: str) -> list[tuple[float, str]]:
    """When the user's job came to each of its states."""
    return [(event["time"], event["state"]) for event in journal(machine, user) if event["kind"] == "state"]


def stays_of(states: list[tuple[float, str]], user: str) -> list[tuple[float, float, str]]:
    """From when to when it had its device."""
    found, began = [], 0.0
    for moment, state in states:
        if state == "running" and not began:
            began = moment
        elif state in ("queued", "done") and began:
            found.append((began, moment, user))
            began = 0.0
    return found


def when(machine: House, user: str, words: str) -> float:
    """When this was first told of the user's job."""
    return next(float(event["time"]) for event in journal(machine, user) if words in json.dumps(event))


def journal(machine: House, user: str) -> list[dict[str, Any]]:
    lines = machine.shell(f"cat /home/{user}/.local/share/gpufit/jobs/*/journal.jsonl").splitlines()
    return [json.loads(line) for line in lines]
