"""Sums of use: who, on what, when."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from jupyter_gpufit.actions import table
from jupyter_gpufit.lab.history import By, History, Row, days_between, read_history, sum_up
from jupyter_gpufit.lab.usage import Use, note_use, parse_uses, read_uses
from jupyter_gpufit.settings import Settings
from tests.lab.values import ADA, BOB, claim
from tests.people import EVE, Town, need_root

HOUR, DAY = 3600.0, 86400.0
NOON = 1_750_000_000 // DAY * DAY + DAY / 2  # in UTC, which the tests here live in
DEVICES = {"GPU-a": "0", "GPU-b": "1"}
USES = {
    ADA: [
        Use("c1", NOON - 3 * HOUR, NOON - HOUR, 0.5, ("GPU-a",)),
        Use("c2", NOON - HOUR, NOON, 2.0, ("GPU-a", "GPU-b")),
    ],
    BOB: [Use("c1", NOON - 20 * HOUR, NOON - 10 * HOUR, 1.0, ("GPU-b",))],
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def rows(by: By, uses: dict[int, list[Use]] = USES, *, hours: float = 168) -> list[tuple[str, float, int]]:
    found = sum_up(uses, by, start=NOON - hours * HOUR, end=NOON, devices=DEVICES)
    return [(row.name, round(row.hours, 6), row.claims) for row in found]


def test_by_user_the_most_first() -> None:
    assert rows("user") == [(f"uid {BOB}", 10.0, 1), (f"uid {ADA}", 3.0, 2)]


def test_by_device_each_has_its_part() -> None:
    assert rows("device") == [("1", 11.0, 2), ("0", 2.0, 2)]


def test_by_day_a_night_is_split_at_midnight() -> None:
    assert rows("day") == [("2025-06-14", 8.0, 1), ("2025-06-15", 5.0, 3)]


def test_only_the_span_counts() -> None:
    assert rows("user", hours=2) == [(f"uid {ADA}", 2.5, 2)]
    assert rows("user", hours=0.5) == [(f"uid {ADA}", 1.0, 1)]


def test_a_device_that_is_not_here_has_no_row_of_its_own() -> None:
    made_up = {ADA: [Use(f"c{i}", NOON - HOUR, NOON, 1.0, (f"GPU-{i}",)) for i in range(1000)]}
    assert rows("device", made_up) == [("other devices", 1000.0, 1000)]


def test_a_day_may_have_twenty_three_hours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    start = time.mktime((2025, 3, 30, 12, 0, 0, 0, 0, -1))
    [(day, morning, night)] = days_between(start, start + HOUR)
    assert (str(day), night - morning) == ("2025-03-30", 23 * HOUR)


def test_nobody_shares_a_slot_so_that_nothing_is_said_of_private_claims(tmp_path: Path) -> None:
    settings = Settings(devices="cpu:2x4GiB", runtime=str(tmp_path / "run"))
    assert read_history(settings, "user", 7).remarks == ()


def test_the_last_mark_of_a_claim_counts(tmp_path: Path) -> None:
    held = claim(["GPU-a"], 1, uid=os.geteuid(), since=1000)
    for until in (1100.0, 1200.0):
        note_use(tmp_path, held, until)
    found = read_uses(tmp_path)[os.geteuid()]
    assert [(use.start, use.end, use.devices) for use in found] == [
        (1000.0, 1100.0, ("GPU-a",)),
        (1000.0, 1200.0, ("GPU-a",)),
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"claim": "c", "start": 1, "until": 2, "share": NaN}',
        b'{"claim": "c", "start": 2, "until": 1, "share": 1}',
        b'{"claim": "c", "start": 1, "until": 1e99, "share": 1}',
        b'{"claim": "c", "start": 1, "until": 2, "share": 1e9}',
        b'{"claim": "c", "start": 1, "until": 2, "share": 1, "devices": 7}',
    ],
)
def test_a_record_that_makes_no_sense_is_passed_over(line: bytes) -> None:
    good = b'{"claim": "c", "start": 1, "until": 2, "share": 1}'
    assert list(parse_uses(line + b"\n" + good)) == [Use("c", 1, 2, 1)]


def test_nobody_adds_to_anothers_account(tmp_path: Path) -> None:
    need_root()
    line = json.dumps({"claim": "c", "start": 1, "until": 2, "share": 1})
    forged = tmp_path / f"u.{ADA}.{0:016x}"
    forged.write_text(line)
    os.chown(forged, EVE, EVE)
    (tmp_path / f"u.{BOB}.{0:016x}").symlink_to(forged)
    os.mkfifo(tmp_path / f"u.{BOB}.{1:016x}")
    assert read_uses(tmp_path) == {}


def test_bars_are_as_long_as_the_hours() -> None:
    shown = table.history(History("user", 7, (Row("ada", 10.0, 3), Row("bob", 5.0, 1))))
    ada, bob = (line.count("█") for line in shown.splitlines()[1:3])
    assert ada == 2 * bob
    assert "15.00 GPU-hours in the last 7 days" in shown
    assert "15.00 slot-hours" in table.history(History("user", 7, (Row("ada", 15.0, 3),), unit="slot-hours"))
    assert "Nothing was used in the last day." in table.history(History("user", 1, ()))


@pytest.mark.slow
def test_a_running_job_counts_and_a_killed_one_up_to_its_last_mark(town: Town) -> None:
    town.asks("run", "--name", "done", "--", "true")
    town.holds("running", "--gpus", "2")

    def history(*options: str) -> Sequence[dict[str, object]]:
        found: Sequence[dict[str, object]] = json.loads(town.asks("history", "--json", *options))["rows"]
        return found

    [mine] = history("--by", "user")
    assert mine["claims"] == 2
    assert {row["device"]: row["claims"] for row in history("--by", "device", "--days", "0.5")} == {
        "cpu:0": 2,
        "cpu:1": 1,
    }
    assert "slot-hours" in town.asks("history")


@pytest.mark.slow
def test_a_span_that_makes_no_sense_is_refused(town: Town) -> None:
    typed = town.types("history", "--days", "-1")
    assert typed.end() == 2 and "not a number of days" in typed.err.text
