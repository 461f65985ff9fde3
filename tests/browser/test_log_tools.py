"""What can be done with a log: find a text in it, copy it, take all of it away; and its pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from .stage import Stage
from .test_log import PIXEL, display, open_log, text

MARKED = "() => String(getSelection())"


@pytest.fixture
def clipboard(stage: Stage) -> Iterator[None]:
    """May be read by the page, as a browser's user allows it."""
    stage.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield
    stage.page.context.clear_permissions()


def tools(stage: Stage) -> Locator:
    return stage.page.get_by_role("group", name="Log of digits")


def test_finds_a_text_and_goes_from_place_to_place(stage: Stage) -> None:
    log = open_log(stage, *[text(f"step {i}: {'NaN' if i % 100 == 7 else 'fine'}\n") for i in range(300)])
    expect(log.get_by_text("step 299")).to_be_visible()
    find = tools(stage).get_by_role("searchbox", name="Find in the log")
    said = tools(stage).get_by_role("status").first

    find.fill("nan")
    expect(said).to_have_text("1 of 3")
    assert stage.page.evaluate(MARKED) == "NaN"
    expect(tools(stage).get_by_label("Follow the end")).not_to_be_checked()
    first = log.evaluate("log => log.scrollTop")
    find.press("Enter")
    expect(said).to_have_text("2 of 3")
    assert log.evaluate("log => log.scrollTop") > first  # it is brought into view
    find.press("Shift+Enter")
    find.press("Shift+Enter")
    expect(said).to_have_text("3 of 3")
    find.fill("never")
    expect(said).to_have_text("nothing")
    find.fill("")
    expect(said).to_have_text("")


@pytest.mark.parametrize("line", ["İstanbul: NaN (?)", "\x1b[1mN\x1b[31maN\x1b[0m (\x1b[32m?)\x1b[0m"])
def test_finds_a_text_whatever_its_letters_and_colours(stage: Stage, line: str) -> None:
    expect(open_log(stage, text(f"{line}\n"))).to_contain_text("NaN (?)")
    tools(stage).get_by_role("searchbox", name="Find in the log").fill("nan (?)")
    expect(tools(stage).get_by_role("status").first).to_have_text("1 of 1")
    assert stage.page.evaluate(MARKED) == "NaN (?)"


def test_copies_what_is_shown_or_what_is_marked_in_it(stage: Stage, clipboard: None) -> None:
    log = open_log(stage, text("\x1b[31mred\x1b[0m\n"), text("10%\r20%\r30%\n", "stderr"), text("the end\n"))
    expect(log).to_contain_text("the end")
    copied = "() => navigator.clipboard.readText()"

    stage.page.evaluate("() => getSelection().selectAllChildren(document.querySelector('.jp-gpufit-panel'))")
    tools(stage).get_by_role("button", name="Copy").click()  # what is marked elsewhere is not of the log
    expect(tools(stage)).to_contain_text("done.")
    assert [line for line in stage.page.evaluate(copied).split("\n") if line] == ["red", "30%", "the end"]

    log.get_by_text("red").dblclick()
    tools(stage).get_by_role("button", name="Copy").click()
    stage.page.wait_for_function("async () => (await navigator.clipboard.readText()).trim() === 'red'")


def test_takes_all_of_it_away_as_a_file(stage: Stage, tmp_path: Path) -> None:
    open_log(
        stage,
        *[text(f"line {i}\n") for i in range(2500)],  # more than one answer has
        text("\x1b[31mred\x1b[0m\n"),
        text("10%\r20%", "stderr"),
        text("\r30%\n", "stderr"),
        {"kind": "failure", "ename": "E", "evalue": "", "traceback": ["Traceback", "\x1b[31mE\x1b[0m: why"]},
    )
    with stage.page.expect_download() as found:
        tools(stage).get_by_role("button", name="Download").click()
    assert found.value.suggested_filename == "digits-id-of-digits.log"
    found.value.save_as(tmp_path / "digits.log")
    lines = (tmp_path / "digits.log").read_text().splitlines()
    assert lines == [*(f"line {i}" for i in range(2500)), "red", "30%", "Traceback", "E: why"]


def test_shows_pictures_and_what_changes_them(stage: Stage) -> None:
    log = open_log(stage, display({"image/png": PIXEL, "text/plain": "<Figure>"}, "live"), text("between\n"))
    picture = log.locator("img")
    expect(picture).to_have_attribute("src", f"data:image/png;base64,{PIXEL}")
    stage.write(display({"image/png": OTHER, "text/plain": "<Figure>"}, "live", update=True))
    expect(picture).to_have_attribute("src", f"data:image/png;base64,{OTHER}")
    expect(picture).to_have_count(1)
    expect(log).not_to_contain_text("<Figure>")


OTHER = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
