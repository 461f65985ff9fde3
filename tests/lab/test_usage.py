"""What users have used: noted by them, and summed up by everybody."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jupyter_gpufit.lab.policy import DAY
from jupyter_gpufit.lab.record import Claim
from jupyter_gpufit.lab.usage import UsageReader, Use, note_use, parse_uses
from tests.lab.values import claim

NOW = 1_000_000.0
ME = os.geteuid()


def held(since: int, share: float = 1.0) -> Claim:
    made = claim(["cpu:0"], 1, uid=ME, since=since)
    return Claim(**vars(made) | {"hold": type(made.hold)(**vars(made.hold) | {"share": share})})


def used(reader: UsageReader, now: float = NOW) -> dict[int, float]:
    return reader.read(half_life=7 * DAY, now=now)


def test_a_use_counts_by_time_and_share(tmp_path: Path) -> None:
    note_use(tmp_path, held(999_000, share=0.5), NOW)
    assert used(UsageReader(tmp_path)) == {ME: pytest.approx(500, rel=0.01)}


def test_a_later_mark_replaces_an_earlier_one(tmp_path: Path) -> None:
    reader, mine = UsageReader(tmp_path), held(999_000)
    note_use(tmp_path, mine, NOW - 500)
    assert used(reader, NOW - 500) == {ME: pytest.approx(500, rel=0.01)}
    note_use(tmp_path, mine, NOW)
    assert used(reader) == {ME: pytest.approx(1000, rel=0.01)}
    assert used(UsageReader(tmp_path)) == {ME: pytest.approx(1000, rel=0.01)}
    assert len(os.listdir(tmp_path)) == 1


def test_after_a_half_life_it_counts_half(tmp_path: Path) -> None:
    reader = UsageReader(tmp_path)
    note_use(tmp_path, held(999_000), NOW)
    now, later = used(reader)[ME], used(reader, NOW + 7 * DAY)[ME]
    assert later == pytest.approx(now / 2)


def test_who_reads_first_and_who_reads_late_agree(tmp_path: Path) -> None:
    early = UsageReader(tmp_path)
    for hour in range(20):
        note_use(tmp_path, held(999_000 + hour * 3600), NOW + hour * 3600)
        used(early, NOW + hour * 3600)
    late = NOW + 3 * DAY
    assert used(early, late)[ME] == pytest.approx(used(UsageReader(tmp_path), late)[ME])


def test_a_running_claim_counts_by_what_everybody_sees(tmp_path: Path) -> None:
    running, over = held(999_000), held(999_500)
    note_use(tmp_path, running, NOW)
    note_use(tmp_path, over, NOW)
    seen = UsageReader(tmp_path).read(half_life=7 * DAY, now=NOW, live=[running.id, "c.0.unknown"])
    assert seen == {ME: pytest.approx(500, rel=0.01)}


def test_a_file_of_any_size_is_read_from_its_end(tmp_path: Path) -> None:
    reader = UsageReader(tmp_path)
    note_use(tmp_path, held(999_000), NOW)
    assert used(reader)[ME] > 900
    [file] = tmp_path.iterdir()
    os.truncate(file, 1 << 40)
    note_use(tmp_path, held(998_000), NOW)
    assert used(reader)[ME] > 900


def test_half_a_line_waits_for_the_other_half(tmp_path: Path) -> None:
    note_use(tmp_path, held(999_000), NOW)
    [file] = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:50])
    reader = UsageReader(tmp_path)
    assert used(reader) == {ME: 0.0}
    file.write_bytes(whole)
    assert used(reader)[ME] > 900


def test_junk_is_passed_over() -> None:
    good = json.dumps({"claim": "c", "start": 1, "until": 2, "share": 1}).encode()
    lines = [b"", b"[", b"\xff", b"[]", b"{}", b"[" * 9999, b'{"claim":"c","start":1e999,"until":2,"share":1}']
    bad_values: list[dict[str, object]] = [{"until": 0}, {"share": -1}, {"share": 1e9}, {"start": "x"}, {"start": None}]
    lines += [json.dumps({"claim": "c", "start": 1, "until": 2, "share": 1} | bad).encode() for bad in bad_values]
    assert list(parse_uses(b"\n".join([*lines, good]))) == [Use("c", 1.0, 2.0, 1.0)]


def test_a_use_in_the_far_future_breaks_nothing(tmp_path: Path) -> None:
    note_use(tmp_path, held(0), 9e10)
    assert used(UsageReader(tmp_path))[ME] < 14 * DAY
