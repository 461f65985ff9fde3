"""The longer story of a hub: it ends and begins again while Ada trains, and Carol acts in a browser without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser.conftest import CHROMIUM
from tests.hub.house import House, Person, start_hub
from tests.hub.test_hub import GPUFIT, as_user, hub_ports, job, machine, train, until

__all__ = ["machine"]
pytestmark = [pytest.mark.soak, pytest.mark.slow(120)]


def test_a_hub_that_ends_and_begins_again_ends_no_training(machine: House) -> None:
    train(machine)
    hub = start_hub(machine, ports := hub_ports())
    hub.wait_until_ready()
    hub.stop()
    assert job(machine)["state"] == "running", "the hub is down, and the service with it"
    assert "bert" in as_user(machine, "bob", f"{GPUFIT} status"), "notebooks and terminals go on"

    hub = start_hub(machine, ports)
    hub.wait_until_ready()
    try:
        _release_in_a_browser(machine, Person(hub, "carol"))
        until(lambda: job(machine)["state"] == "released", lambda: job(machine))
    finally:
        hub.stop()


def _release_in_a_browser(machine: House, carol: Person) -> None:
    if CHROMIUM is None:
        pytest.skip("NOT TESTED: the lab's page in a browser. apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        context = browser.new_context(java_script_enabled=False, viewport={"width": 400, "height": 900})
        page = context.new_page()
        page.goto(f"{carol.hub.url}/services/gpufit/")
        page.get_by_label("Username").fill("carol")
        page.get_by_label("Password").fill("pw-carol")
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("button", name="Save and release").click()
        expect(page.get_by_text("will be saved and leave its device").first).to_be_visible()
        browser.close()
