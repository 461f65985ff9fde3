"""What of a job a power cut may not take: it is on the disk before anybody counts on it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_gpufit.jobs.epoch import current_epoch, next_epoch, publishing
from jupyter_gpufit.jobs.handover import Handover, note_start
from jupyter_gpufit.jobs.job import Job
from jupyter_gpufit.jobs.paths import JobPaths
from jupyter_gpufit.jobs.result import save
from jupyter_gpufit.jobs.store import create_job_files
from jupyter_gpufit.settings import Settings


@pytest.fixture
def paths(folder: Path) -> JobPaths:
    settings = Settings(devices="cpu:1x4GiB", lab=f"{folder}/lab", data=f"{folder}/data", runtime=f"{folder}/run")
    return create_job_files(settings, Job(id="bert-id", name="bert", source="pass", created=1e9, cwd="/"))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, int]]]:
    """Names and sizes of what was brought to the disk, in order, and the names of what was put in place."""
    done: list[tuple[str, int]] = []
    sync, replace = os.fsync, os.replace

    def noted(fd: int) -> None:
        path = os.readlink(f"/proc/self/fd/{fd}")
        done.append(("directory" if os.path.isdir(path) else "file", os.fstat(fd).st_size))
        sync(fd)

    def placed(source: Path, target: Path) -> None:
        done.append((target.name, target.parent.stat().st_ino))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "replace", placed)
    yield done


def started(paths: JobPaths) -> None:
    note_start(paths, Handover(job_root=str(paths.root), cwd="/", path=[], env={}, cell_number=1))


def test_what_a_resume_needs_is_on_the_disk_whole(synced: list[tuple[str, int]], folder: Path, paths: JobPaths) -> None:
    started(paths)
    next_epoch(paths)
    written = [("job.json", paths.job), ("start.json", paths.start), ("epoch", paths.epoch)]
    for name, path in written:
        at = next(number for number, (what, _) in enumerate(synced) if what == name)
        assert synced[at - 1] == ("file", path.stat().st_size) and synced[at + 1][0] == "directory"
        assert path.stat().st_mode & 0o777 == 0o600
    assert [what for what, _ in synced].count("directory") == 4  # the one in which the job's is, too


def test_the_variables_of_a_job_that_ended_alone_are_there_before_they_seem_to_be(
    synced: list[tuple[str, int]], paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Left:
        def save(self, directory: Path) -> None:
            (directory / "memory").write_bytes(b"x" * 99)

    def placed(source: Path, target: Path) -> None:
        synced.append((target.name, 0))
        rename(source, target)

    rename = os.rename
    monkeypatch.setattr(os, "rename", placed)
    save(Left(), paths)  # type: ignore[arg-type]
    assert [what for what, _ in synced[-4:]] == ["file", "directory", "result", "directory"]
    assert synced[-4] == ("file", 99)


@pytest.mark.parametrize("text", ["", None])
def test_a_lost_epoch_is_that_of_the_latest_checkpoint(paths: JobPaths, text: str | None) -> None:
    for name in ("000003-000001", "000012-000002", ".000099-000001.7.ab.tmp"):
        (paths.checkpoints / name).mkdir(parents=True)
    if text is not None:
        paths.epoch.write_text(text)
    assert current_epoch(paths) == 12
    assert next_epoch(paths) == 13 == int(paths.epoch.read_text())


def test_publishing_holds_a_file_that_is_open_for_writing(paths: JobPaths) -> None:
    """NFS tells other hosts of such a lock; one on a directory stays with this host."""
    paths.checkpoints.mkdir()
    with publishing(paths.checkpoints), (paths.root / "publish.lock").open("r+") as file:
        with pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert os.listdir(paths.checkpoints) == []
