"""Where things are on the screen."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import Locator, Page

from .conftest import PANEL_TAB, Lab


def open_panel(page: Page, lab: Lab, path: str = "") -> Locator:
    page.goto(lab.address(path))
    tab(page).click()
    return panel_of(page)


def panel_of(page: Page) -> Locator:
    return page.get_by_role("region", name="GPUs and jobs")


def tab(page: Page) -> Locator:
    return page.locator(PANEL_TAB)


def section(page: Page, title: str) -> Locator:
    return panel_of(page).get_by_role("region", name=title)


def fold(page: Page, title: str) -> Locator:
    """What folds a section, and unfolds it; how many are in it belongs to its name."""
    return panel_of(page).get_by_role("button", name=re.compile(rf"^{title}( \d+)?$"))


def unfold(page: Page, title: str) -> None:
    """A test before may have left it open."""
    if fold(page, title).get_attribute("aria-expanded") != "true":
        fold(page, title).click()


def job_card(page: Page, name: str) -> Locator:
    return page.locator(".jp-gpufit-job").filter(has=page.get_by_text(name, exact=True))


def button(page: Page, name: str) -> Locator:
    return panel_of(page).get_by_role("button", name=name, exact=True)


def command(page: Page, id: str, **arguments: Any) -> Any:
    """Run one of JupyterLab's commands."""
    return page.evaluate("([id, given]) => jupyterapp.commands.execute(id, given)", [id, arguments])
