"""This user's jobs: made, listed and found by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..errors import NoSuchJob, StorageError
from ..settings import Settings
from ..system.directories import data_dir
from ..system.files import read_small, sync_directory, write_durably
from ..system.trust import check_trusted
from .job import Job
from .paths import JobPaths


def jobs_dir(settings: Settings) -> Path:
    """Where this user's jobs live."""
    return data_dir(settings) / "jobs"


def create_job_files(settings: Settings, job: Job) -> JobPaths:
    """Make the job's directory, readable by its owner only, with job.json in it."""
    parent = jobs_dir(settings)
    paths = JobPaths(parent / job.id)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths.root.mkdir(mode=0o700)
        paths.input.mkdir(mode=0o700)
        write_durably(paths.job, job.to_json())
        sync_directory(parent)
    except OSError as error:
        raise StorageError(str(parent), error.strerror or str(error), "GPUFIT_DATA") from error
    check_trusted(paths.job)
    return paths


def all_jobs(settings: Settings, read: Mapping[Path, tuple[Job, JobPaths]] | None = None) -> list[tuple[Job, JobPaths]]:
    """This user's jobs, oldest first; a directory that holds no readable job.json is passed over.

    Those in `read`, by their directory, are not read again: a job never changes.
    """
    found = []
    try:
        entries = sorted(jobs_dir(settings).iterdir())
    except FileNotFoundError:
        return []
    for root in entries:
        try:
            found.append((read or {}).get(root) or _read_job(JobPaths(root)))
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            continue  # being created or removed right now, or of a later version
    return sorted(found, key=lambda pair: pair[0].created)


def _read_job(paths: JobPaths) -> tuple[Job, JobPaths]:
    return Job.from_json(read_small(paths.job)), paths


def find_job(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    """The job with this id, or else the newest with this name."""
    jobs = all_jobs(settings)
    for job, paths in reversed(jobs):
        if job.id == wanted:
            return job, paths
    for job, paths in reversed(jobs):
        if job.name == wanted:
            return job, paths
    raise NoSuchJob(wanted, tuple(dict.fromkeys(word for job, _ in jobs for word in (job.name, job.id))))


def chosen_job(settings: Settings, wanted: str) -> tuple[Job, JobPaths]:
    """The job that is meant: the newest when nothing is said."""
    if wanted:
        return find_job(settings, wanted)
    jobs = all_jobs(settings)
    if not jobs:
        raise NoSuchJob("")
    return jobs[-1]
