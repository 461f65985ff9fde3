from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gpufit.jobs.events import Gap, StateChange, Text
from jupyter_gpufit.jobs.journal import RESERVE, Journal, JournalReader, last_seq, older
from jupyter_gpufit.units import KiB, MiB
from tests.disks import small_disk

_opened: list[Journal | JournalReader] = []


@pytest.fixture(autouse=True)
def _close_files() -> Iterator[None]:
    yield
    while _opened:
        _opened.pop().close()


def _journal(path: Path, limit: int = MiB) -> Journal:
    _opened.append(journal := Journal(path, limit))
    return journal


def _reader(path: Path, after: int = 0) -> JournalReader:
    _opened.append(reader := JournalReader(path, after))
    return reader


def _texts(reader: JournalReader) -> list[str]:
    return [entry.event.text for entry in reader.read() if isinstance(entry.event, Text)]


def _out(text: str) -> Text:
    return Text("stdout", text)


def test_a_reader_gets_what_was_written_and_then_what_comes(tmp_path: Path) -> None:
    journal = _journal(tmp_path / "journal.jsonl")
    reader = _reader(tmp_path / "journal.jsonl")
    journal.append([_out("a"), _out("b")])
    assert _texts(reader) == ["a", "b"]
    assert _texts(reader) == []
    journal.append([_out("c")])
    assert _texts(reader) == ["c"]


def test_replays_from_any_number(tmp_path: Path) -> None:
    journal = _journal(tmp_path / "journal.jsonl")
    journal.append([_out(str(number)) for number in range(10)])
    assert _texts(_reader(tmp_path / "journal.jsonl", after=7)) == ["7", "8", "9"]


def test_a_reader_may_come_before_the_journal(tmp_path: Path) -> None:
    reader = _reader(tmp_path / "journal.jsonl")
    assert _texts(reader) == []
    _journal(tmp_path / "journal.jsonl").append([_out("first")])
    assert _texts(reader) == ["first"]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=40))
def test_a_reader_that_keeps_up_misses_nothing_however_the_files_turn(
    tmp_path_factory: pytest.TempPathFactory, bursts: list[tuple[int, bool]]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal, reader = _journal(path, 32 * KiB), _reader(path)
    written: list[str] = []
    read: list[str] = []
    for count, reads in bursts:
        texts = [f"{len(written) + number} {'x' * 40}" for number in range(count)]
        journal.append([_out(text) for text in texts])
        written += texts
        if reads or len(written) - len(read) > 40:
            read += _texts(reader)
    read += _texts(reader)
    assert read == written
    _opened.pop().close()
    _opened.pop().close()


def test_a_bounded_journal_keeps_the_latest_and_says_what_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    journal = _journal(path, 16 * KiB)
    for number in range(2000):
        journal.append([_out(str(number))])

    entries = list(_reader(path).read())

    assert path.stat().st_size + older(path).stat().st_size <= 17 * KiB
    assert isinstance(entries[0].event, Gap)
    assert entries[0].event.missed == entries[1].seq - 1
    assert isinstance(entries[-1].event, Text) and entries[-1].event.text == "1999"


def test_a_later_worker_goes_on_with_the_numbers_and_cuts_off_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    _journal(path).append([_out("a"), _out("b")])
    with open(path, "ab") as file:
        file.write(b'{"seq":3,"kind":"te')  # as a kill in the middle of a write leaves it

    _journal(path).append([_out("c")])

    entries = list(_reader(path).read())
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert entries[-1].event == _out("c")


@pytest.mark.parametrize("text", ["\udcff lone surrogate", "\x00\x1b[31m", "line\nline\r", "日本語 🎉", ""])
def test_any_text_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    journal = _journal(tmp_path / "journal.jsonl")
    journal.append([_out(text)])
    assert _texts(_reader(tmp_path / "journal.jsonl")) == [text]


@pytest.fixture(name="small_disk")
def a_small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path, "512k") as disk:
        yield disk


def test_a_full_disk_costs_output_but_not_the_end_and_is_said(small_disk: Path) -> None:
    path = small_disk / "journal.jsonl"
    journal = _journal(path, 100 * MiB)
    for number in range(400):
        journal.append([_out(f"{number} " + "x" * 8000)])  # 3.2 MB in all
    written = len(list(_reader(path).read()))
    assert 0 < written < 100

    journal.append_final(StateChange("done"))

    entries = list(_reader(path).read())
    assert entries[-1].event == StateChange("done")
    gap = entries[-2].event
    assert isinstance(gap, Gap) and "No space left" in gap.why and gap.missed == 400 - written


def test_the_space_for_the_end_is_kept_back_until_then(tmp_path: Path) -> None:
    journal = _journal(tmp_path / "journal.jsonl")
    reserve = tmp_path / "journal.reserve"
    assert reserve.stat().st_blocks * 512 >= RESERVE
    journal.append_final(StateChange("done"))
    assert not reserve.exists()


def test_the_last_number_is_found_without_reading_it_all(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    assert last_seq(path) == 0
    journal = _journal(path, 64 * MiB)
    journal.append([_out("x" * KiB)] * 20_000)
    tracemalloc.start()
    assert last_seq(path) == 20_000
    assert tracemalloc.get_traced_memory()[1] < MiB
    tracemalloc.stop()
    journal.append([_out("a picture " * 50 * KiB)])  # in one line
    with path.open("ab") as file:
        file.write(b'{"seq": 99999}')  # torn: its line has no end
    assert last_seq(path) == 20_001
    os.replace(path, older(path))
    path.touch()
    assert last_seq(path) == 20_001


def test_a_turn_for_which_no_file_can_be_opened_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.jsonl"
    journal, reader = _journal(path, 2 * KiB), _reader(path)

    def none_is_free(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("jupyter_gpufit.jobs.journal.open", none_is_free, raising=False)
        for number in range(40):
            journal.append([_out(f"{number} {'x' * 100}")])
    assert not path.exists()
    journal.append([_out("40"), _out("41")])
    assert path.exists()
    assert [text.split()[0] for text in _texts(reader)] == [str(number) for number in range(42)]


def test_a_reader_of_some_kinds_passes_over_the_others_and_goes_on_behind_them(tmp_path: Path) -> None:
    journal = _journal(tmp_path / "journal.jsonl")
    state = StateChange("running", device='"kind":"text"')
    journal.append([_out("a"), state, _out('{"seq":9,"time":1.0,"kind":"state"')])
    reader = JournalReader(tmp_path / "journal.jsonl", 0, frozenset({"state"}))
    _opened.append(reader)
    assert [(entry.seq, entry.event) for entry in reader.read()] == [(2, state)] and reader.after == 3
    journal.append([_out("b"), StateChange("done")])
    assert [entry.seq for entry in reader.read()] == [5] and reader.after == 5
