"""Deleting the files of jobs that have ended."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from .errors import JobBusy
from .job import Job, JobPaths, all_jobs, find_job
from .settings import Settings
from .units import format_bytes
from .worker.record import Record, read_record

REMOVABLE = ("done", "failed", "stopped", "lost", "released")


def clean(settings: Settings, wanted: Sequence[str]) -> Iterator[str]:
    """Remove the named jobs, or all that have ended; says what went and how much room it gave.

    Those that were released, or were lost with a checkpoint, wait for a resume: they go only by their names.
    """
    chosen = [find_job(settings, name) for name in wanted] if wanted else _ended(settings)
    for job, paths in chosen:
        if read_record(paths).state not in REMOVABLE:
            raise JobBusy(job.name, "cleaned")
    freed = 0
    for job, paths in chosen:
        freed += _size(paths)
        shutil.rmtree(paths.root)
        yield f"{job.name} ({job.id}): removed"
    yield f"{len(chosen)} jobs removed, {format_bytes(freed)} freed."


def _ended(settings: Settings) -> list[tuple[Job, JobPaths]]:
    return [(job, paths) for job, paths in all_jobs(settings) if _is_over(read_record(paths))]


def _is_over(record: Record) -> bool:
    return record.state in REMOVABLE and not (record.state in ("released", "lost") and record.resumable)


def _size(paths: JobPaths) -> int:
    return sum(file.stat().st_size for file in paths.root.rglob("*") if file.is_file())
