"""A journal in stretches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.events import StateChange, Text
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.journal import Journal
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.record import Record, take_lock, write_record
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.server import journals, wire
from jupyter_gpufit.server.journals import Following, read_stretch
from jupyter_gpufit.settings import Settings


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return create_job_files(Settings(data=str(tmp_path)), Job(id="j", name="bert", source="", created=0.0, cwd="/"))


def bytes_read() -> int:
    """By this process, until now."""
    (line,) = (line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar: "))
    return int(line.removeprefix("rchar: "))


def write(paths: JobPaths, *texts: str, limit: int = 1 << 20) -> None:
    journal = Journal(paths.journal, limit)
    journal.append([Text("stdout", text) for text in texts])
    journal.close()


def texts(stretch: wire.WireJournal) -> list[str]:
    return [entry.event.get("text", entry.event["kind"]) for entry in stretch.entries]


def test_in_stretches(paths: JobPaths) -> None:
    write(paths, *"abcdef")
    first = read_stretch(paths, 0, 4)
    assert texts(first) == list("abcd") and first.next == 4
    assert texts(read_stretch(paths, first.next, 4)) == list("ef")
    assert texts(read_stretch(paths, 6, 4)) == []


def test_the_last_so_many(paths: JobPaths) -> None:
    write(paths, *"abcdef")
    assert texts(read_stretch(paths, -2, 100)) == list("ef")
    assert texts(read_stretch(paths, -100, 100)) == list("abcdef")


def test_of_a_job_that_has_written_nothing(paths: JobPaths) -> None:
    assert read_stretch(paths, -5, 10).entries == ()


def test_a_long_one_comes_in_pieces_of_bounded_size(paths: JobPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "LARGEST", 100)
    write(paths, "x" * 60, "y" * 60, "z" * 500, "w")
    following = Following(paths)
    found: list[list[str]] = []
    while not found or following.more:
        found.append([text[0] for text in texts(following.read())])
    following.close()
    assert found == [["x", "y"], ["z"], ["w"]]


def test_goes_on_where_it_was_and_loses_nothing(paths: JobPaths) -> None:
    following = Following(paths)
    write(paths, "a", "b", "c")
    assert texts(following.read(2)) == ["a", "b"] and following.more
    write(paths, "d")
    assert texts(following.read(2)) + texts(following.read(2)) == ["c", "d"]
    assert not following.more
    following.close()


def test_from_the_middle_of_a_long_one_without_reading_what_is_before(paths: JobPaths) -> None:
    write(paths, *(f"{number:05}" + "." * 1000 for number in range(3000)), limit=1 << 30)
    found = [read_stretch(paths, after, 1).entries[0] for after in (0, 1, 1234, 2500, 2998)]
    assert [entry.number for entry in found] == [1, 2, 1235, 2501, 2999]
    before = bytes_read()
    assert read_stretch(paths, 2999, 1).entries[0].number == 3000
    assert bytes_read() - before < 1 << 20  # of three million


def test_from_an_entry_that_is_gone(paths: JobPaths) -> None:
    """Two generations bound the journal: what was asked for has left it, and that is said."""
    write(paths, *(f"{number}" + "." * 1000 for number in range(100)), limit=40_000)
    stretch = read_stretch(paths, 3, 1000)
    assert stretch.entries[0].event["kind"] == "gap"
    assert stretch.entries[0].event["missed"] == stretch.entries[1].number - 4
    assert stretch.next == 100
    for after in range(stretch.entries[1].number - 1, 100):
        assert [entry.number for entry in read_stretch(paths, after, 1).entries] == [after + 1][: 100 - after]


def test_whether_it_has_ended(paths: JobPaths) -> None:
    lock = take_lock(paths, "bert")
    write_record(paths, Record(state="running", since=0.0))
    write(paths, "a")
    following = Following(paths)
    assert not following.read().ended
    journal = Journal(paths.journal, 1 << 20)
    journal.append_final(StateChange("done"))
    journal.close()
    write_record(paths, Record(state="done", since=0.0))
    os.close(lock)
    assert not following.read(0).ended  # there is more to come
    last = following.read()
    assert texts(last) == ["state"] and last.ended
    following.close()


def test_a_worker_that_was_killed_has_ended(paths: JobPaths) -> None:
    write_record(paths, Record(state="running", since=0.0))
    assert read_stretch(paths, 0, 10).ended


def test_of_one_that_lives_the_record_is_read_where_something_may_have_ended(
    paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[JobPaths] = []

    def looked(paths: JobPaths) -> Record:
        looks.append(paths)
        return Record(state="done", since=0.0)

    monkeypatch.setattr(journals, "read_record", looked)
    write(paths, "a", "b")
    following = Following(paths)
    assert texts(following.read(lives=True)) == ["a", "b"] and not looks
    journal = Journal(paths.journal, 1 << 20)
    journal.append_final(StateChange("done"))
    journal.close()
    assert following.read(lives=True).ended and len(looks) == 1
    assert following.read(lives=True).ended and len(looks) == 2  # nothing new: its record may be
    following.close()
