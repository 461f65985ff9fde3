"""Checks that fail or hang, and what is said of all."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from jupyter_gpufit.examine.findings import Check, as_json, as_text, at_once, bad, healthy, note, ok


def test_a_check_that_fails_is_a_finding() -> None:
    def fails() -> None:
        raise OSError("no such luck")

    (finding,) = Check("The weather", fails, lambda found: []).findings()

    assert (finding.level, finding.what) == ("note", "The weather could not be examined (OSError: no such luck).")


@pytest.mark.slow(1)
def test_a_check_that_hangs_hides_no_other() -> None:
    never = threading.Event()
    abyss_check: Check[bool] = Check("The abyss", never.wait, lambda _: [])
    weather_check: Check[str] = Check("The weather", lambda: "fine", lambda found: [ok(f"It is {found}.")])
    checks: list[Check[Any]] = [abyss_check, weather_check]

    abyss, weather = at_once(checks, 1)
    never.set()

    assert "The abyss could not be examined within 1 s" in abyss.what
    assert weather == ok("It is fine.")


def test_what_is_bad_stands_last() -> None:
    found = [bad("a", "do b"), ok("c"), note("d", "do e")]

    assert as_text(found).splitlines() == [
        "ok    c",
        "note  d",
        "      → do e",
        "bad   a",
        "      → do b",
        "",
        "1 bad, 1 to note, 1 ok.",
    ]
    assert json.loads(as_json(found)) == {"ok": False, "findings": [vars(finding) for finding in found]}
    assert healthy(found[1:]) and not healthy(found)
