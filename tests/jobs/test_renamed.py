"""A notebook that was renamed: its jobs, and those that its kernel begins afterwards."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jupyter_gpufit.jobs import renamed
from jupyter_gpufit.jobs.renamed import note_renamed, where_now
from jupyter_gpufit.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


def test_a_kernel_follows_all_renames_since_it_began(settings: Settings) -> None:
    assert where_now(settings, "/home/a.ipynb", 0.0) == "/home/a.ipynb"
    for before, now in (("/home/a.ipynb", "/home/b.ipynb"), ("/home", "/house"), ("/house/c.ipynb", "/house/d.ipynb")):
        note_renamed(settings, before, now)
    assert where_now(settings, "/home/a.ipynb", 0.0) == "/house/b.ipynb"
    assert where_now(settings, "/homes/a.ipynb", 0.0) == "/homes/a.ipynb"
    assert where_now(settings, "", 0.0) == ""


def test_one_that_began_later_has_another_notebook_of_that_name(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.time", lambda: 1000.0)
    note_renamed(settings, "/home/a.ipynb", "/home/b.ipynb")
    assert where_now(settings, "/home/a.ipynb", 999.0) == "/home/b.ipynb"
    assert where_now(settings, "/home/a.ipynb", 1001.0) == "/home/a.ipynb"


def test_what_cannot_be_read_is_passed_over_and_what_is_old_forgotten(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renamed, "MOST", 3)
    for number in range(5):
        note_renamed(settings, f"/{number}", f"/{number}.now")
    file = tmp_path / "data" / "renamed.jsonl"
    file.write_text("{not json\n[]\n" + file.read_text() + '{"format": 99}\n')
    assert [where_now(settings, f"/{n}", 0.0) for n in range(5)] == ["/0", "/1", "/2.now", "/3.now", "/4.now"]


def test_a_guess_holds_while_nothing_has_the_old_name(settings: Settings, tmp_path: Path) -> None:
    before = tmp_path / "a.ipynb"
    note_renamed(settings, str(before), "/b.ipynb", guessed=True)
    assert where_now(settings, str(before), 0.0) == "/b.ipynb"
    before.touch()
    assert where_now(settings, str(before), 0.0) == str(before)
    note_renamed(settings, str(before), "/c.ipynb")  # heard of: its kernel is the other one's, whoever has the name now
    assert where_now(settings, str(before), 0.0) == "/c.ipynb"


def test_of_many_at_once_none_is_lost(settings: Settings) -> None:
    """As two servers of one user hear of them, each in a thread."""
    renames = [(f"/{number}", f"/{number}.now") for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda rename: note_renamed(settings, *rename), renames))
    assert [where_now(settings, before, 0.0) for before, _ in renames] == [now for _, now in renames]


def test_a_garbled_line_costs_no_other(settings: Settings, tmp_path: Path) -> None:
    note_renamed(settings, "/a", "/b")
    file = tmp_path / "data" / "renamed.jsonl"
    file.write_bytes(b"\xff\xfe\x00\n" + file.read_bytes() + b'{"format": 1, "time": 1' + b"0" * 400 + b"}\n")
    note_renamed(settings, "/b", "/c")
    assert where_now(settings, "/a", 0.0) == "/c"


def test_a_fifo_of_that_name_holds_nobody_up(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    os.mkfifo(tmp_path / "data" / "renamed.jsonl")
    note_renamed(settings, "/a", "/b")
    assert where_now(settings, "/a", 0.0) == "/a"
