"""Deleting the files of jobs that have ended."""

from __future__ import annotations

import errno
import os
import select
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..errors import BadOption, GpufitError, JobBusy, NotResumable
from ..jobs.job import Job
from ..jobs.paths import JobPaths
from ..jobs.record import read_record, take_lock
from ..jobs.state import OVER
from ..jobs.store import all_jobs, find_job, jobs_dir
from ..settings import Settings
from ..system.runtime import runtime_of
from ..units import format_bytes

LEAVING = 30.0  # seconds that a worker which has ended its job may take to end itself
Found = tuple[Job, JobPaths]


def clean(settings: Settings, wanted: Sequence[str], *, resumable: bool = False) -> Iterator[str]:
    """Remove the named jobs, or all that have ended; says what went, how much room it gave, and what stays.

    Those that can be resumed go only by their names, or where `resumable` says so: their checkpoints are all there is
    of a training.
    """
    if wanted and resumable:
        raise BadOption("clean takes either the names of jobs, or --all.")
    stay: list[Found] = []
    if wanted:
        chosen = _named(settings, wanted)
    else:
        chosen, stay = _ended(settings, resumable)
    freed = 0
    for job, paths in chosen:
        freed += _remove(job, paths)
        yield f"{job.name} ({job.id}): removed"
    _remove_dead_sockets(settings)
    jobs = "1 job" if len(chosen) == 1 else f"{len(chosen)} jobs"
    yield f"{jobs} removed, {format_bytes(freed)} freed."
    if stay:
        names = ", ".join(dict.fromkeys(job.name for job, _ in stay))
        yield f"{len(stay)} that can be resumed stay: {names}. To remove one: gpufit clean NAME, and all: --all"


def _named(settings: Settings, wanted: Sequence[str]) -> list[Found]:
    named = [find_job(settings, name) for name in wanted]
    for job, paths in named:
        if read_record(paths).state not in OVER:
            raise JobBusy(job.name, "cleaned")
    return named


def _ended(settings: Settings, resumable: bool) -> tuple[list[Found], list[Found]]:
    """Those that are to go, and those that stay."""
    go: list[Found] = []
    stay: list[Found] = []
    for job, paths in all_jobs(settings):
        record = read_record(paths)
        if record.state in OVER:
            (stay if record.resumable and not resumable else go).append((job, paths))
    return go, stay


def _remove_dead_sockets(settings: Settings) -> None:
    """Of workers that were killed: nobody else takes them away."""
    with suppress(GpufitError, OSError):
        for path in runtime_of(settings).path.glob("*.sock"):
            # One that has a living job is left alone: it may have been made this instant, and not answer yet.
            if read_record(JobPaths(jobs_dir(settings) / path.stem)).state in OVER and _is_dead(path):
                path.unlink(missing_ok=True)


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False  # it has too many to answer at once, say
        return False


def _remove(job: Job, paths: JobPaths) -> int:
    """Remove its files; how many bytes they took. Another `clean` may be at it, too, and no file is missed."""
    lock = -1
    with suppress(FileNotFoundError):
        lock = _lock(job, paths) if read_record(paths).resumable else -1
    try:
        size = _size(paths.root)
        _remove_tree(paths.root)
    finally:
        if lock >= 0:
            os.close(lock)
    return size


def _size(root: Path) -> int:
    size = 0
    for folder, _, files in os.walk(root):
        for file in files:
            with suppress(FileNotFoundError):
                size += os.lstat(os.path.join(folder, file)).st_size
    return size


def _lock(job: Job, paths: JobPaths) -> int:
    """Its lock, so that nobody resumes it meanwhile. A worker that was stopped has it until its process has ended.

    One that is suspended has given it up, and ends when it sees that the files are gone.
    """
    record = read_record(paths)
    if (
        record.state != "lost"
        and not record.rests
        and record.worker is not None
        and (process := record.worker.open()) is not None
    ):
        ending = select.poll()
        ending.register(process, select.POLLIN)
        ending.poll(1e3 * LEAVING)
        os.close(process)
    try:
        return take_lock(paths, job.name)
    except NotResumable:
        raise JobBusy(job.name, "cleaned") from None


def _remove_tree(root: Path) -> None:
    """Once more where something was put there meanwhile (a `stop` notes what it does), or taken away (by a `clean`)."""
    tries = 0
    while root.exists():
        try:
            shutil.rmtree(root)
        except FileNotFoundError:
            continue
        except OSError as error:
            if tries == 2 or error.errno != errno.ENOTEMPTY:
                raise
            tries += 1
