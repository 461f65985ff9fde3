"""A job: one cell's run, the states it goes through, and where its files lie."""

from __future__ import annotations

import grp
import json
import os
import pwd
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from .errors import NoSuchJob, NotYours, StorageError
from .settings import Settings

FORMAT = 1  # of job.json and state.json; readers ignore unknown keys and refuse a higher format

State = Literal[
    "estimating", "queued", "starting", "running", "saving", "moving", "released", "done", "failed", "stopped", "lost"
]
STATES: tuple[State, ...] = get_args(State)
ENDED: frozenset[State] = frozenset({"done", "failed", "stopped"})
LEFT: frozenset[State] = ENDED | {"released"}  # its worker said so, and is gone
OVER: frozenset[State] = LEFT | {"lost"}  # nobody trains it
RESUMABLE: frozenset[State] = frozenset({"released", "failed", "stopped", "lost"})  # where there is a checkpoint


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked of the run, beside the cell itself."""

    gpu: str = ""  # an index, UUID or slot name; empty: wherever it fits
    memory: int | None = None  # bytes to claim; None: the whole device
    exclusive: bool = False


@dataclass(frozen=True, kw_only=True)
class Job:
    """One cell's run. Immutable; what changes is in the journal."""

    id: str
    name: str
    source: str  # the cell's text below the magic line, as the user wrote it
    magic_line: str = ""  # the cell's first line
    options: Options = field(default_factory=Options)
    created: float  # seconds since 1970
    cwd: str
    notebook: str = ""
    kernel_id: str = ""
    version: str = ""  # of jupyter_gpufit in the kernel

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str) -> Job:
        record: dict[str, Any] = json.loads(text)
        assert record["format"] <= FORMAT, f"job.json has format {record['format']}"
        known = {name: record[name] for name in cls.__dataclass_fields__ if name in record}
        return cls(**known | {"options": Options(**record["options"])})


def new_job_id() -> str:
    """Six letters and digits: short enough to type, and a clash among one user's jobs is unlikely (and refused)."""
    return "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(6))


@dataclass(frozen=True)
class JobPaths:
    """Builds every path of a job, each once; nobody else does."""

    root: Path

    @cached_property
    def job(self) -> Path:
        return self.root / "job.json"

    @cached_property
    def input(self) -> Path:
        return self.root / "input"

    @cached_property
    def graph(self) -> Path:
        return self.input / "graph.pkl"

    @cached_property
    def journal(self) -> Path:
        return self.root / "journal.jsonl"

    @cached_property
    def lock(self) -> Path:
        return self.root / "lock"

    @cached_property
    def state(self) -> Path:
        return self.root / "state.json"

    @cached_property
    def epoch(self) -> Path:
        return self.root / "epoch"

    @cached_property
    def publish_lock(self) -> Path:
        """Held for an instant by whoever publishes a checkpoint, or numbers a worker."""
        return self.root / "publish.lock"

    @cached_property
    def start(self) -> Path:
        """How its first worker was started: directory, environment, import path, hash seed."""
        return self.root / "start.json"

    @cached_property
    def log(self) -> Path:
        """What the worker's own process wrote before and after the cell: for a bug report."""
        return self.root / "worker.log"

    @cached_property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @cached_property
    def picked(self) -> Path:
        """Which of its numbers its user wants drawn."""
        return self.root / "picked.json"

    @cached_property
    def result(self) -> Path:
        return self.root / "result"


def data_dir(settings: Settings) -> Path:
    """Where everything of this user's lives that outlasts a job."""
    data = settings.data or os.path.join(
        os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "gpufit"
    )
    return Path(data)


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


def all_jobs(
    settings: Settings, known: Mapping[Path, tuple[Job, JobPaths]] | None = None
) -> list[tuple[Job, JobPaths]]:
    """This user's jobs, oldest first; a directory that holds no readable job.json is passed over.

    Those in `known`, by their directory, are not read again: a job never changes.
    """
    found = []
    try:
        entries = sorted(jobs_dir(settings).iterdir())
    except FileNotFoundError:
        return []
    for root in entries:
        try:
            found.append((known or {}).get(root) or _read_job(JobPaths(root)))
        except (OSError, ValueError, KeyError, TypeError, AssertionError):
            continue  # being created or removed right now, or of a later version
    return sorted(found, key=lambda pair: pair[0].created)


def _read_job(paths: JobPaths) -> tuple[Job, JobPaths]:
    return Job.from_json(paths.job.read_text()), paths


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


def check_trusted(path: Path) -> None:
    """Refuse a file that anybody but this user (or root) could have written, or swapped through a parent directory."""
    uid = os.getuid()
    for place in (path, *path.absolute().parents):
        found = os.stat(place, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            continue  # whoever could swap the link could write to its directory, which is checked next
        if found.st_uid not in (uid, 0):
            raise NotYours(str(path), f"{place} belongs to uid {found.st_uid}")
        writable = found.st_mode & (stat.S_IWOTH if _is_private_group(found.st_gid) else stat.S_IWGRP | stat.S_IWOTH)
        if writable and not (stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX):
            raise NotYours(str(path), f"{place} can be written by others")


def _is_private_group(gid: int) -> bool:
    """Whether the group is this user's alone, as systems make one per user; their files are often group-writable."""
    try:
        user, group = pwd.getpwuid(os.getuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == user.pw_gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def write_whole(path: Path, text: str) -> None:
    """Replace a small file in one step, so that a reader sees the old text or the new one."""
    with _replacing(path) as aside:
        aside.write_text(text)


def write_durably(path: Path, text: str) -> None:
    """The same for what no power cut may take back, readable by its owner only."""
    with _replacing(path) as aside:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
    sync_directory(path.parent)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield aside
        os.replace(aside, path)
    except OSError:
        aside.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Wait until the names in it are on the disk."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
