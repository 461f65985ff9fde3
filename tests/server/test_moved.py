"""A notebook that was moved by `mv` is found by its inode, and its jobs go with it; to a copy they never go."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jupyter_server.services.contents.fileio import atomic_writing

from jupyter_gpufit.actions.status import JobView, read_job
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.record import Record, write_record
from jupyter_gpufit.jobs.store import all_jobs, create_job_files
from jupyter_gpufit.server.moved import FOLDERS, MovedNotebooks
from jupyter_gpufit.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work" / "inside").mkdir(parents=True)
    return tmp_path / "work"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=str(tmp_path / "data"))


def write(path: Path, *cells: str) -> Path:
    path.write_text(json.dumps({"cells": [{"id": id, "source": "x"} for id in cells]}))
    return path


def a_job(settings: Settings, notebook: Path, cell: str) -> None:
    job = Job(id=f"id-{cell}", name=cell, source="", created=0.0, cwd="/", notebook=str(notebook), cell=cell)
    write_record(create_job_files(settings, job), Record(state="done", since=0.0))


def views(settings: Settings) -> list[JobView]:
    return [read_job(job, paths) for job, paths in all_jobs(settings)]


def notebooks(settings: Settings) -> set[str]:
    return {Path(view.notebook).name for view in views(settings)}


@pytest.mark.parametrize("to", ["b.ipynb", "inside/b.ipynb", "../b.ipynb"])
def test_it_is_found(settings: Settings, home: Path, to: str) -> None:
    first = write(home / "a.ipynb", "one", "two", "three")
    write(home / "other.ipynb", "one", "two", "three")
    for cell in ("one", "two"):
        a_job(settings, first, cell)
    moved = MovedNotebooks(every=0.0)
    assert moved.look(settings, views(settings)) == 0
    first.rename(home / to)
    assert moved.look(settings, views(settings)) == 2 and notebooks(settings) == {"b.ipynb"}
    assert moved.look(settings, views(settings)) == 0
    (home / to).rename(home / "c.ipynb")
    assert moved.look(settings, views(settings)) == 2 and notebooks(settings) == {"c.ipynb"}


def saved_by_jupyter(path: Path) -> None:
    with atomic_writing(str(path)) as file:
        file.write(path.read_text() + json.dumps({"cells": [{"id": "one"}]}))


def saved_as_a_new_file(path: Path) -> None:
    write(path.with_name(".aside"), "one", "new").replace(path)


def after_a_look(settings: Settings, home: Path) -> tuple[Path, MovedNotebooks]:
    """A notebook with a job, which was there at the first look."""
    first = write(home / "a.ipynb", "one")
    a_job(settings, first, "one")
    moved = MovedNotebooks(every=0.0)
    moved.look(settings, views(settings))
    return first, moved


@pytest.mark.parametrize("save", [saved_by_jupyter, saved_as_a_new_file])
def test_it_is_found_after_a_save(settings: Settings, home: Path, save: Callable[[Path], None]) -> None:
    first, moved = after_a_look(settings, home)
    save(first)
    assert moved.look(settings, views(settings)) == 0
    first.rename(home / "b.ipynb")
    assert moved.look(settings, views(settings)) == 1 and notebooks(settings) == {"b.ipynb"}


def test_the_jobs_of_one_that_is_deleted_do_not_go_to_its_copy(settings: Settings, home: Path) -> None:
    first, moved = after_a_look(settings, home)
    shutil.copy2(first, home / "a-Copy1.ipynb")
    first.unlink()
    assert moved.look(settings, views(settings)) == 0 and notebooks(settings) == {"a.ipynb"}


def test_nor_to_a_new_one_that_is_given_its_inode(settings: Settings, home: Path) -> None:
    first, moved = after_a_look(settings, home)
    first.rename(home / "b.ipynb")
    write(home / "b.ipynb", "one")  # in place, as a file that came into being with that number would look
    assert moved.look(settings, views(settings)) == 0 and notebooks(settings) == {"a.ipynb"}


def test_one_that_was_never_seen_is_not_looked_for(settings: Settings, home: Path) -> None:
    a_job(settings, home / "gone.ipynb", "one")
    write(home / "b.ipynb", "one")
    assert MovedNotebooks(every=0.0).look(settings, views(settings)) == 0 and notebooks(settings) == {"gone.ipynb"}


def test_of_two_links_it_is_neither(settings: Settings, home: Path) -> None:
    first, moved = after_a_look(settings, home)
    (home / "b.ipynb").hardlink_to(first)
    (home / "c.ipynb").hardlink_to(first)
    first.unlink()
    assert moved.look(settings, views(settings)) == 0 and notebooks(settings) == {"a.ipynb"}


def test_what_is_no_file_holds_nobody_up(settings: Settings, home: Path) -> None:
    first, moved = after_a_look(settings, home)
    os.mkfifo(home / "b.ipynb")
    (home / "c.ipynb").symlink_to("/dev/zero")
    (home / "d.ipynb").write_text("[" * 100_000)
    first.rename(home / "e.ipynb")
    assert moved.look(settings, views(settings)) == 1 and notebooks(settings) == {"e.ipynb"}


def test_it_is_looked_for_once_in_no_more_than_some_folders(
    settings: Settings, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2 * FOLDERS):
        (home / str(number)).mkdir()
    first, moved = after_a_look(settings, home)
    first.unlink()
    listed: list[str] = []
    scandir = os.scandir

    def listing(path: Any) -> Any:
        listed.append(str(path))
        return scandir(path)

    monkeypatch.setattr("os.scandir", listing)
    seen = views(settings)
    listed.clear()
    moved.look(settings, seen)
    assert len(listed) == FOLDERS + 1
    write(home / "b.ipynb", "one")
    moved.look(settings, seen)
    assert len(listed) == FOLDERS + 1


def test_it_looks_seldom(settings: Settings, home: Path) -> None:
    first = write(home / "a.ipynb", "one")
    a_job(settings, first, "one")
    moved = MovedNotebooks(every=60.0)
    moved.look(settings, views(settings))
    first.rename(home / "b.ipynb")
    assert moved.look(settings, views(settings)) == 0
