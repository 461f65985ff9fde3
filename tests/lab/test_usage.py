"""What users have used: noted by them, and summed up by everybody."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpufit.lab import digest
from jupyter_gpufit.lab.debts import parse
from jupyter_gpufit.lab.order import decayed_seconds
from jupyter_gpufit.lab.policy import DAY
from jupyter_gpufit.lab.record import Claim
from jupyter_gpufit.lab.usage import (
    LONGEST,
    MOST_FILES,
    MOST_USES,
    UsageReader,
    Use,
    append,
    note_use,
    own_text,
    parse_uses,
    read_uses,
)
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


# Whoever writes without end ------------------------------------------------------------------------------------------


def many_uses(seed: int, size: int = LONGEST) -> bytes:
    """A second each, as many as there is room for."""
    line = '{"claim":"%06x%06x","start":1,"until":2,"share":1}\n'
    return "".join(line % (seed, number) for number in range(size // len(line % (0, 0)))).encode()


def read_of(reader: UsageReader) -> float:
    """How many of those uses count."""
    used(reader)
    return sum(reader.seconds_since(0, NOW, ()).values())


def test_what_is_gone_is_kept_no_longer(tmp_path: Path) -> None:
    reader = UsageReader(tmp_path)
    for round in range(3):
        file = tmp_path / f"u.{ME}.{round:016x}"
        file.write_bytes(many_uses(round, size=5000))
        assert read_of(reader) == many_uses(round, size=5000).count(b"\n")
        file.unlink()
    assert read_of(reader) == 0


def test_of_each_user_no_more_is_read_than_one_record(tmp_path: Path) -> None:
    """However many there are; and of all who look, the same."""
    for number in range(8):
        (tmp_path / f"u.{ME}.{number:016x}").write_bytes(many_uses(number))
    most = many_uses(0).count(b"\n")
    assert 0 < read_of(UsageReader(tmp_path)) <= most
    assert 0 < len(read_uses(tmp_path)[ME]) <= most


def test_of_thousands_of_short_ones_not_all_are_opened(tmp_path: Path) -> None:
    for number in range(1000):
        (tmp_path / f"u.{ME}.{number:016x}").write_bytes(many_uses(number, size=100))
    assert read_of(UsageReader(tmp_path)) == MOST_FILES


def test_a_record_that_grows_for_ever_is_kept_as_far_as_one_that_is_long(tmp_path: Path) -> None:
    reader, file = UsageReader(tmp_path), tmp_path / f"u.{ME}.{0:016x}"
    for round in range(4):
        with file.open("ab") as more:
            more.write(many_uses(round))
        assert 0 < read_of(reader) <= MOST_USES


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


# Made shorter


def test_a_long_record_is_made_shorter_and_says_the_same(tmp_path: Path) -> None:
    """A hundred days of a busy user: ten jobs a day, each with a mark every few minutes."""
    reader, sum_of_all = UsageReader(tmp_path), 0.0
    for number in range(1000):
        start = NOW + number * DAY / 10
        sum_of_all += 600
        mine = held(int(start))
        for mark in (200, 400, 600):
            note_use(tmp_path, mine, start + mark)
    [file] = tmp_path.iterdir()
    assert file.stat().st_size <= digest.LARGEST + 1000 and file.name.startswith(f"u.{ME}.")
    assert file.stat().st_mode & 0o777 == 0o644
    [uses] = read_uses(tmp_path).values()
    assert sum(use.share * (use.end - use.start) for use in {use.claim: use for use in uses}.values()) == pytest.approx(
        sum_of_all
    )
    end = NOW + 100 * DAY
    plain = sum(
        decayed_seconds(NOW + n * DAY / 10, NOW + n * DAY / 10 + 600, half_life=7 * DAY, now=end) for n in range(1000)
    )
    assert used(reader, end)[ME] == pytest.approx(plain, rel=0.05)


def test_what_another_job_writes_meanwhile_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note_use(tmp_path, held(999_000), NOW)
    [file] = tmp_path.iterdir()
    really, late = digest.shorter, held(999_500)

    def meanwhile(text: bytes, most: int) -> bytes:
        note_use(tmp_path, late, NOW)
        return really(text, most)

    monkeypatch.setattr(digest, "shorter", meanwhile)
    digest.shorten(tmp_path, file.name)
    assert late.id in file.read_text()
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_writer_whose_file_was_replaced_writes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note_use(tmp_path, held(999_000), NOW)
    [file] = tmp_path.iterdir()
    really = os.write
    times: list[int] = []

    def replaced(fd: int, text: bytes) -> int:
        if not times:
            times.append(1)
            digest.shorten(tmp_path, file.name)
        return really(fd, text)

    late = held(999_500)
    monkeypatch.setattr(os, "write", replaced)
    note_use(tmp_path, late, NOW)
    assert late.id in file.read_text()


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from([b'{"claim": 1}', b"[1]", b"null", b'{"claim":"a","start":0,"until":9,"share":1}']),
        )
    ),
    st.integers(0, 500),
)
def test_whatever_a_record_holds_it_becomes_short(lines: list[bytes], most: int) -> None:
    assert len(digest.shorter(b"\n".join(lines), most)) <= most


def test_what_is_owed_is_remembered_and_forgiven(tmp_path: Path) -> None:
    append(tmp_path, {"format": 1, "owed": {"61003": 30.0}, "at": NOW})
    append(tmp_path, {"format": 1, "owed": "junk", "at": NOW})
    note_use(tmp_path, held(999_000), NOW)
    text = own_text(tmp_path, 1 << 16)
    assert parse(text, NOW + 60) == {61003: 29.0}
    assert parse(text, NOW + 3600) == {}
    assert parse(digest.shorter(text, 1 << 16), NOW) == {61003: 30.0}
